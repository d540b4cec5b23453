//! `--help` of every command, as written.

use clap::CommandFactory;
use waybill_cli::args::Cli;
use waybill_cli::exit::Exit;

use crate::support::waybill;

/// Paths of all commands.
fn commands(command: &clap::Command, path: &str, all: &mut Vec<String>) {
    all.push(path.to_owned());
    for sub in command.get_subcommands() {
        commands(sub, format!("{path} {}", sub.get_name()).trim(), all);
    }
}

#[test]
fn help_of_every_command() {
    let mut all = Vec::new();
    commands(&Cli::command(), "", &mut all);
    assert!(all.len() > 35, "{all:?}");
    for path in all {
        let mut arguments: Vec<&str> = path.split_whitespace().collect();
        arguments.push("--help");
        let done = waybill(&arguments).run();
        assert_eq!(done.exit, Exit::Done, "{path}");
        let name = if path.is_empty() { "waybill".to_owned() } else { path.replace(' ', "-") };
        insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/help", omit_expression => true }, {
            insta::assert_snapshot!(name, done.out);
        });
    }
}

#[test]
fn every_command_and_every_group_has_examples_of_its_own() {
    fn check(command: &clap::Command, path: &str) {
        let example = command.get_after_help().is_some_and(|text| text.to_string().contains(path));
        assert!(example, "{path} has no example of its own");
        for sub in command.get_subcommands() {
            check(sub, &format!("{path} {}", sub.get_name()));
        }
    }
    check(&Cli::command(), "waybill");
}

#[test]
fn what_every_command_takes_is_a_line_each() {
    let help = waybill(&["outbox", "cancel", "--help"]).run();
    let global = help.out.split_once("Global options:\n").unwrap().1;
    let lines = global.lines().take_while(|line| !line.is_empty()).count();
    assert_eq!(lines, Cli::command().get_arguments().filter(|argument| argument.is_global_set()).count(), "{global}");
}

#[test]
fn a_group_names_each_of_its_commands() {
    let all = Cli::command();
    for group in all.get_subcommands().filter(|group| group.get_subcommands().count() > 1) {
        let about = group.get_about().unwrap().to_string();
        let said: Vec<&str> = about.split_once(": ").unwrap().1.split(", ").collect();
        let there: Vec<&str> = group.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(said, there, "waybill {}", group.get_name());
    }
}

#[test]
fn a_misspelt_command_gets_a_suggestion_and_exit_2() {
    let done = waybill(&["outbux", "list"]).run();
    assert_eq!(done.exit, Exit::Usage);
    assert!(done.err.contains("outbox"), "{}", done.err);
    assert_eq!(done.out, "");
}

#[test]
fn completions_are_written_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let done = waybill(&["completions", shell]).run();
        assert_eq!(done.exit, Exit::Done);
        assert!(done.out.contains("quarantine"), "{shell}");
    }
}
