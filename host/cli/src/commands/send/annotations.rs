//! The optional texts of a message as flags.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use waybill_core::annotation::Annotation;
use waybill_core::annotations::Annotations;

/// Those that flags give. There is a flag for each, named as the table has it.
#[derive(Clone, Debug, Default)]
pub struct AnnotationArgs(pub Annotations);

fn flag(annotation: Annotation) -> Arg {
    let help = annotation.request_doc().trim_end_matches('.');
    Arg::new(annotation.name()).long(annotation.dashed()).value_name("TEXT").help(help)
}

impl Args for AnnotationArgs {
    fn augment_args(command: Command) -> Command {
        command.args(Annotation::ALL.map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AnnotationArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |annotation: Annotation| Some((annotation, matches.get_one::<String>(annotation.name())?.as_str()));
        Ok(Self(Annotation::ALL.into_iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
