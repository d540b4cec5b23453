//! `waybill token create`.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use waybill_api::tokens::{CreatedToken, NewToken};
use waybill_core::code::Code;

use crate::args::{Global, duration};
use crate::commands::Context;
use crate::exit::{CliError, Exit};
use crate::output::{Format, safe};
use crate::serve;
use crate::setup::{ConfigArgs, Source};
use crate::term::Term;

/// What a new token may, and who makes it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill token create orders --role sender --tenant acme > orders.token\n  \
    waybill token create ci --role viewer --role 'append:build.**' --expires 90d\n  \
    waybill token create ops --role admin --data ./data > ops.token     the first one, while no host runs\n\n\
    The token is written to stdout alone, and to nowhere else: a host keeps its hash. With --data or --config the store\n\
    itself is opened instead of asking a host, so whoever may read it may do everything.")]
#[command(mut_arg("data", |arg| arg.help("Folder of the store, which no host has open: it is opened itself")))]
#[command(mut_arg("config", |arg| arg.help("Configuration of the host that isn't running; its store is opened itself")))]
pub struct Create {
    /// Name for the audit, and by which it is revoked
    pub name: String,
    /// viewer, sender, transactor, worker, operator, backup, admin, append:PATTERN or read:PATTERN; more than once for several
    #[arg(long, value_name = "ROLE", required = true)]
    pub role: Vec<String>,
    /// Tenant that it is for; more than once for several [default: all]
    #[arg(long, value_name = "TENANT")]
    pub tenant: Vec<String>,
    /// How long it is good [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub expires: Option<Duration>,
    /// Where the store is, if it is opened itself.
    #[command(flatten)]
    pub config: ConfigArgs,
}

impl Create {
    fn asked(&self) -> NewToken {
        NewToken {
            name: self.name.clone(),
            roles: self.role.clone(),
            tenants: Some(self.tenant.clone()).filter(|tenants| !tenants.is_empty()),
            expires_ms: self.expires.map(|good| u64::try_from(good.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

pub(super) async fn run(args: &Create, global: &Global, term: &mut Term) -> Result<(), CliError> {
    let asked = args.asked();
    if args.config.data.is_some() || args.config.config.is_some() {
        if global.url.is_some() || global.token_file.is_some() {
            let what = "--data and --config open the store itself, and --url and --token-file are for asking a host";
            return Err(CliError::usage(what, "give the ones or the others"));
        }
        let config = Source::new(&args.config, Vec::new(), term).read()?;
        // Opening a store takes far more room than asking a host does.
        let created = Box::pin(serve::create_token(&config, asked, term)).await?;
        let text = serde_json::to_string(&created).unwrap_or_default();
        match (config.auth.required, config.auth.is_said) {
            (true, _) => {}
            (false, true) => term.say("note: the host asks nobody for a token: set [auth] required = true"),
            (false, false) => {
                term.say("note: with a token stored the host starts when [auth] required is written: set it to true");
            }
        }
        return write(&created, &text, global.format(), term);
    }
    let context = Context::new(global, term)?;
    let body = serde_json::to_value(&asked).unwrap_or_default();
    let answer = context.client.post(&["v1", "tokens"], &[], &body).await?;
    let created = answer.need("stored", |stored| {
        let token = answer.body.get("token").and_then(Value::as_str)?.to_owned();
        Some(CreatedToken { token, stored: serde_json::from_value(stored.clone()).ok()? })
    })?;
    write(&created, &answer.text, context.format, context.term)
}

/// The token alone is a result; what it may is a message.
fn write(created: &CreatedToken, json: &str, format: Format, term: &mut Term) -> Result<(), CliError> {
    let stored = &created.stored;
    let until = stored.expires_at.map_or("it is revoked".to_owned(), |at| at.0.to_string());
    term.say(&format!(
        "made {}, for {} as {}, good until {until}; it isn't shown again",
        safe(&stored.name),
        safe(&match stored.tenants.as_slice() {
            [all] if all == "*" => "all tenants".to_owned(),
            tenants => tenants.join(", "),
        }),
        safe(&stored.roles.join(", ")),
    ));
    let text = match format {
        Format::Json | Format::Jsonl => json.trim_end().to_owned(),
        Format::Table | Format::Ids => safe(&created.token),
    };
    // Nobody has it then, and it stays in force.
    writeln!(term.out, "{text}").and_then(|()| term.out.flush()).map_err(|cause| CliError::Host {
        code: Code::CLI_IO,
        what: format!(
            "token {name:?} was made, and writing it failed ({cause}): revoke it with `waybill token revoke {name}`",
            name = stored.name
        ),
        exit: Exit::Failed,
    })
}
