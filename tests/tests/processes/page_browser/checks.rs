//! What is checked in the browser, by the names that the driver prints, and what a run leaves out that isn't full.

use serde_json::{Value, json};

use super::choice::{self, Combination};

/// A view in a state. Whoever adds a view adds it here.
struct View {
    /// In names of checks and pictures.
    name: &'static str,
    /// Which host, and who looks: `open` asks nobody for a token, `secured` knows the viewer who is signed in, `stranger` is signed out there.
    host: &'static str,
    /// `{operation}` stands for the id of the scene's operation.
    address: &'static str,
    status: u16,
}

const fn open(name: &'static str, address: &'static str) -> View {
    refused(name, address, 200)
}

/// A view that says why it shows nothing else.
const fn refused(name: &'static str, address: &'static str, status: u16) -> View {
    View { name, host: "open", address, status }
}

/// A view of a host on which nothing has happened yet, for who may look and not act.
const fn secured(name: &'static str, address: &'static str) -> View {
    View { name, host: "secured", address, status: 200 }
}

const VIEWS: &[View] = &[
    open("overview", "/ui"),
    open("messages", "/ui/messages"),
    open("messages-waiting", "/ui/messages?sort=state"),
    open("messages-filtered", "/ui/messages?filter=state%3Dpending"),
    open("messages-none", "/ui/messages?filter=key%3Dnobody"),
    open("messages-unreadable", "/ui/messages?filter=agee%3C1h"),
    open("message", "/ui/message?tenant=default&id=done-1"),
    open("message-dead", "/ui/message?tenant=default&id=dead-0"),
    open("message-raw", "/ui/message?tenant=default&id=dead-0&show=raw"),
    open("message-headers", "/ui/message?tenant=default&id=dead-0&show=headers"),
    open("message-fenced", "/ui/message?tenant=default&id=fenced-1"),
    open("message-scheduled", "/ui/message?tenant=default&id=later-1"),
    refused("message-missing", "/ui/message?tenant=default&id=nobody", 404),
    open("dead-letters", "/ui/dead-letters"),
    open("blocked", "/ui/blocked"),
    open("sagas", "/ui/sagas"),
    open("saga", "/ui/saga?tenant=default&id=order-1"),
    open("saga-undone", "/ui/saga?tenant=default&id=order-2"),
    open("saga-asks", "/ui/saga?tenant=default&id=ask-1"),
    open("saga-stuck", "/ui/saga?tenant=default&id=stuck-1"),
    open("inbox", "/ui/inbox"),
    open("idempotency", "/ui/idempotency"),
    open("idempotency-key", "/ui/idempotency?tenant=default&key=nightly"),
    open("approvals", "/ui/approvals"),
    open("streams", "/ui/streams"),
    open("stream", "/ui/stream?tenant=default&name=task.node.7&from=5"),
    open("relay", "/ui/relay?name=copies"),
    open("plugins", "/ui/plugins"),
    open("plugin", "/ui/plugin?name=http"),
    open("plugin-log", "/ui/plugin?name=http&show=log"),
    open("plugin-grants", "/ui/plugin?name=http&show=grants"),
    open("help", "/ui/help/HTTP.422"),
    open("operations", "/ui/operations"),
    open("operation", "/ui/operation?id={operation}"),
    open("plan-one", "/ui/plan?act=dead-replay&tenant=default&id=dead-0"),
    open("plan-many", "/ui/plan?act=dead-purge&tenant=default&filter=code%3DHTTP.*"),
    open("form-message", "/ui/plan?act=message-send"),
    open("form-edit", "/ui/plan?act=dead-edit&tenant=default&id=dead-0"),
    open("plan-fields", "/ui/plan?act=relay-seek&id=copies"),
    refused("plan-unreadable", "/ui/plan?act=explode", 400),
    refused("plan-gone", "/ui/plan?act=message-send&draft=gone", 404),
    open("audit", "/ui/audit"),
    open("configuration", "/ui/configuration?compare=now"),
    secured("first-run", "/ui"),
    secured("first-run-messages", "/ui/messages"),
    secured("first-run-dead-letters", "/ui/dead-letters"),
    secured("first-run-sagas", "/ui/sagas"),
    secured("first-run-operations", "/ui/operations"),
    secured("not-allowed-plan", "/ui/plan?act=dead-replay&tenant=default&id=nobody"),
    secured("not-allowed-plan-many", "/ui/plan?act=dead-purge&tenant=default&filter=id%3D*"),
    View { name: "sign-in", host: "stranger", address: "/ui/sign-in", status: 200 },
];
const WIDTHS: [u32; 5] = [320, 360, 768, 1_440, 1_920];
const THEMES: [&str; 2] = ["light", "dark"];
const SCRIPTS: [&str; 2] = ["script", "plain"];
const SIZES: [usize; 4] = [VIEWS.len(), WIDTHS.len(), THEMES.len(), SCRIPTS.len()];

/// Acts of the page that every run does by keyboard alone: together they meet each kind of plan, field and answer.
const ACTS: &[&str] = &[
    "dead-replay",
    "dead-edit",
    "dead-purge",
    "message-send",
    "message-reschedule",
    "transport-pause",
    "saga-kill",
    "saga-skip",
    "plugin-reload",
    "rows-replay",
    "relay-seek",
    "configuration-reload",
];
/// The others, which a full run does.
const FURTHER_ACTS: &[&str] = &[
    "dead-quarantine",
    "message-cancel",
    "transport-resume",
    "transport-probe",
    "saga-start",
    "saga-pause",
    "saga-resume",
    "saga-cancel",
    "saga-retry",
    "saga-accept",
    "saga-signal",
    "saga-approve",
    "saga-reject",
    "plugin-rollback",
    "source-pause",
    "source-resume",
    "relay-pause",
    "relay-resume",
    "stream-append",
    "stream-purge",
    "key-release",
    "operation-cancel",
];

/// What is checked beside views and acts, in every run.
const CHECKS: &[&str] = &[
    "keys rows",
    "keys find and filter",
    "keys g o",
    "keys g d",
    "keys g t",
    "keys times",
    "keys help and switch",
    "live a number changes without a reload",
    "live pauses by a key",
    "live rows stay and newer ones are told",
    "live dead letters that grow leave row and focus where they are",
    "live a host that stands still is told, and so is that it goes on",
    "killed an operation goes on when its host is back",
    "states a part that takes too long says so and the others stand",
    "colour-blind overview",
    "once two requests with one form are one act",
    "once a key that is pressed twice is one act",
    "once a plan whose set grew comes again",
    "history back and reload",
    "zone Pacific/Kiritimati",
    "colours forced overview",
    "colours forced plan-many",
    "zoom overview",
    "zoom messages",
    "motion",
    "sign-in by keyboard",
    "sign-in a session that is revoked is over",
    "the browser ends",
];
/// And in a full one.
const FURTHER_CHECKS: &[&str] = &[
    "keys g m",
    "keys g s",
    "keys g p",
    "once a button that is clicked twice is one act",
    "zone America/St_Johns",
    "zone Asia/Kolkata",
    "colour-blind dead-letters",
    "colour-blind saga-undone",
    "colours forced messages",
    "colours forced dead-letters",
    "colours forced saga-undone",
    "zoom dead-letters",
    "zoom saga-undone",
    "zoom plan-many",
    "zoom configuration",
];

/// All checks, and which of them are made.
pub struct Choice {
    is_full: bool,
    looks: Vec<Combination<4>>,
}

impl Choice {
    pub fn new(is_full: bool) -> Self {
        Self { is_full, looks: if is_full { choice::all(SIZES) } else { choice::pairwise(SIZES) } }
    }

    /// Names of what is checked, as the driver prints them.
    pub fn names(&self) -> Vec<String> {
        let looks = self.looks.iter().map(|[view, width, theme, script]| {
            let (view, width) = (VIEWS[*view].name, WIDTHS[*width]);
            format!("look {view} {width} {} {}", THEMES[*theme], SCRIPTS[*script])
        });
        let further = if self.is_full { further() } else { Vec::new() };
        looks.chain(named(ACTS, CHECKS)).chain(further).collect()
    }

    /// Names of checks that the driver knows and doesn't make.
    pub fn others(&self) -> Vec<String> {
        if self.is_full { Vec::new() } else { further() }
    }

    /// Views for the driver, with how each is looked at.
    pub fn views(&self, operation: &str) -> Vec<Value> {
        let shown = |(number, view): (usize, &View)| {
            let looks = self.looks.iter().filter(|look| look[0] == number);
            let looks: Vec<Value> = looks
                .map(|[_, width, theme, script]| json!([WIDTHS[*width], THEMES[*theme], SCRIPTS[*script]]))
                .collect();
            let address = view.address.replace("{operation}", operation);
            json!({ "name": view.name, "host": view.host, "address": address, "status": view.status, "looks": looks })
        };
        VIEWS.iter().enumerate().map(shown).collect()
    }

    /// What isn't tried, in words; nothing of a full run.
    pub fn left_out(&self) -> Vec<String> {
        if self.is_full {
            return Vec::new();
        }
        let (looks, all) = (self.looks.len(), SIZES.iter().product::<usize>());
        let [views, widths, themes, _] = SIZES;
        let others = self.others();
        let made = ACTS.len() + CHECKS.len();
        vec![
            format!(
                "the page in a browser: {} of {all} combinations of {views} views, {widths} widths, {themes} themes, with and without script \
                 (each two of these meet in the {looks} others), and axe but once for each view and theme. All: {COMMAND}",
                all - looks
            ),
            format!(
                "the page in a browser: {} of {} further checks ({}). All: {COMMAND}",
                others.len(),
                others.len() + made,
                others.join(", ")
            ),
        ]
    }
}

/// What checks all of it.
const COMMAND: &str = "cargo xtask test --full every_view_is_sound_in_a_real_browser";

fn named(acts: &[&str], checks: &[&str]) -> Vec<String> {
    let acts = acts.iter().map(|act| format!("act {act}"));
    acts.chain(checks.iter().map(|check| (*check).to_owned())).collect()
}

fn further() -> Vec<String> {
    named(FURTHER_ACTS, FURTHER_CHECKS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    /// Sources of the page.
    fn sources() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/page/src")
    }

    #[test]
    fn every_act_of_the_page_is_done_by_keyboard() {
        let mut of_page = BTreeSet::new();
        for file in std::fs::read_dir(sources().join("acts/table")).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let names = text.lines().filter_map(|line| line.trim().strip_prefix("name: \"")?.strip_suffix("\","));
            of_page.extend(names.map(str::to_owned));
        }
        let done: BTreeSet<String> = ACTS.iter().chain(FURTHER_ACTS).map(|act| (*act).to_owned()).collect();
        assert_eq!(done, of_page);
        assert_eq!(done.len(), ACTS.len() + FURTHER_ACTS.len(), "none is done twice");
    }

    #[test]
    fn every_address_of_the_page_is_looked_at() {
        // Files, what isn't shown, and where checks come by themselves.
        let elsewhere = [
            "/ui/save",
            "/ui/live",
            "/ui/find",
            "/ui/answer",
            "/ui/sign-out",
            "/ui/sign-in/oidc",
            "/ui/sign-in/oidc/callback",
        ];
        let text = std::fs::read_to_string(sources().join("address.rs")).unwrap();
        let addresses: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("pub const "))
            .filter_map(|line| line.split('"').nth(1))
            .filter(|address| address.starts_with("/ui") && !elsewhere.contains(address))
            .collect();
        assert!(addresses.len() > 15, "{addresses:?}");
        for address in addresses {
            let is_of = |view: &View| {
                let path = view.address.split('?').next().unwrap_or_default();
                path == address
                    || path.strip_prefix(address).is_some_and(|rest| rest.starts_with('/') && address != "/ui")
            };
            assert!(VIEWS.iter().any(is_of), "nobody looks at {address}");
        }
    }

    #[test]
    fn a_run_makes_some_and_says_what_it_leaves_out_and_a_full_one_makes_all() {
        let (some, all) = (Choice::new(false), Choice::new(true));
        let unique = |names: Vec<String>| names.into_iter().collect::<BTreeSet<String>>();
        assert_eq!(unique(all.names()).len(), all.names().len(), "each check has a name of its own");
        assert!(unique(some.names()).is_subset(&unique(all.names())));
        assert!(some.others().iter().all(|name| all.names().contains(name) && !some.names().contains(name)));
        assert!(all.left_out().is_empty() && all.others().is_empty());
        let looks = |of: &Choice| of.names().iter().filter(|name| name.starts_with("look ")).count();
        let words = some.left_out().join("\n");
        let number = format!("{} of {} combinations", looks(&all) - looks(&some), looks(&all));
        assert!(words.contains(&number) && words.contains("--full"), "{words}");
    }
}
