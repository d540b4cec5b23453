//! Well-behaved: provisions what `names` says into `kv`, where a thing is its key. `name` alone is wanted with the value `v1`; `name=v2` wants
//! another value; `name!` can't be changed. `address` is the way a plan fails, if it isn't empty. Sends report the things that are there.
use guests::{CallInfo, Config, ErrorKind, Fault, Message, OpenArgs, Opened, Outcome, PluginError, Transport};
use waybill_plugin::host::kv;
use waybill_plugin::provision::{Action, Change, Provision};

waybill_plugin::manifest!("manifests/transport.toml");
waybill_plugin::export_transport!(Things);
waybill_plugin::export_provision!(Things);

struct Things;

impl Transport for Things {
    type Config = Config;

    async fn open(_: &CallInfo, _: &OpenArgs, _: Config) -> Result<(Self, Opened), PluginError> {
        Ok((Self, guests::opened()))
    }

    async fn send_batch(&self, _: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let keys = kv::keys("", None, 100).map_err(|error| PluginError::internal(format!("{error:?}")))?;
        Ok(guests::reports(&batch, &format!("{keys:?}")))
    }
}

/// One thing as the configuration wants it: its key, its value, and whether another value may be replaced.
fn wanted(name: &str) -> (&str, &str, bool) {
    let (name, may_change) = name.strip_suffix('!').map_or((name, true), |name| (name, false));
    let (key, value) = name.split_once('=').unwrap_or((name, "v1"));
    (key, value, may_change)
}

fn plan(config: &Config) -> Result<Vec<Change>, PluginError> {
    match config.address.as_str() {
        "" => {}
        "loop" => loop {
            std::hint::spin_loop();
        },
        "panic" => panic!("as told"),
        other => return Err(PluginError::new(ErrorKind::Unavailable, Fault::new("THINGS.GONE", other))),
    }
    let mut changes = Vec::new();
    for (key, value, may_change) in config.names.iter().map(|name| wanted(name)) {
        let found = kv::get(key).map_err(|error| PluginError::internal(format!("{error:?}")))?;
        let (action, detail) = match found {
            None => (Action::Create, format!("as {value}")),
            Some(entry) if entry.value == value.as_bytes() => (Action::Keep, String::new()),
            Some(entry) => {
                let action = if may_change { Action::Change } else { Action::Conflict };
                (action, format!("is {}, wanted {value}", String::from_utf8_lossy(&entry.value)))
            }
        };
        changes.push(Change { target: key.to_owned(), action, detail });
    }
    Ok(changes)
}

impl Provision for Things {
    type Config = Config;

    async fn plan(_: &CallInfo, _: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        plan(&config)
    }

    async fn apply(_: &CallInfo, _: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        let changes = plan(&config)?;
        for (change, name) in changes.iter().zip(&config.names) {
            if matches!(change.action, Action::Create | Action::Change) {
                let (key, value, _) = wanted(name);
                kv::put(key, value.as_bytes(), &kv::Expectation::Anything)
                    .map_err(|error| PluginError::internal(format!("{error:?}")))?;
            }
        }
        Ok(changes)
    }
}
