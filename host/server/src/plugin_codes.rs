//! Codes of plugins that can't be loaded, tried or changed, as answers of the API.

use crate::codes::{Code, again, no};

/// What a change of plugin may be refused with.
pub const PLUGIN_CODES: [Code; 26] = [
    no(
        "PLUGIN.REMEMBERED_BAD",
        409,
        "The component was rolled back before",
        "Give a corrected component, or insist with `waybill plugin reload NAME --force`.",
    ),
    no(
        "PLUGIN.NO_PREVIOUS",
        409,
        "There is no earlier generation to go back to",
        "Load the component you want: `waybill plugin load FILE --transport NAME`.",
    ),
    no(
        "PLUGIN.NOT_IN_FOLDER",
        409,
        "A component can't be handed over to this transport",
        "Set `plugins.folder`, name the plugin without a path (`plugin = \"acme\"` is `acme.wasm` there), or replace the file by yourself and reload.",
    ),
    again("PLUGIN.READ", 422, "The plugin's file can't be read", "Check the path and its permissions."),
    no(
        "PLUGIN.NOT_A_COMPONENT",
        422,
        "The file isn't a WebAssembly component",
        "Give the `.wasm` that the build for `wasm32-wasip2` made.",
    ),
    no(
        "PLUGIN.CORE_MODULE",
        422,
        "The file is a core WebAssembly module, not a component",
        "Build for `wasm32-wasip2`.",
    ),
    no("PLUGIN.PRECOMPILED", 422, "The file is machine code", "Give the `.wasm` component it was made from."),
    no("PLUGIN.TOO_LARGE", 422, "The component is too large", "Strip it, or build with `opt-level = \"s\"`."),
    no(
        "PLUGIN.NO_MANIFEST",
        422,
        "The component carries no manifest",
        "Put `waybill-plugin.toml` beside its `Cargo.toml`, call the macro once, and build again.",
    ),
    no(
        "PLUGIN.BAD_MANIFEST",
        422,
        "The plugin's manifest can't be read",
        "Correct `waybill-plugin.toml` and build the plugin again; `plugins/README.md` describes it.",
    ),
    no(
        "PLUGIN.OTHER_WORLD",
        422,
        "The plugin is of another kind than its place needs",
        "Name a plugin of the kind asked for; `waybill plugin inspect` shows its world.",
    ),
    no(
        "PLUGIN.MISSING_EXPORT",
        422,
        "The plugin isn't what its manifest says",
        "Correct `world` in `waybill-plugin.toml`, or export the interface.",
    ),
    no(
        "PLUGIN.CONTRACT_VERSION",
        422,
        "The plugin was built for another version of the contract",
        "Build it against this host's `wit/`, or run a host that serves that version (`waybill version`).",
    ),
    no(
        "PLUGIN.UNKNOWN_IMPORT",
        422,
        "The component wants something that the host doesn't offer",
        "Remove the dependency that needs the import named.",
    ),
    no(
        "PLUGIN.TYPE_MISMATCH",
        422,
        "The component doesn't fit the contract",
        "Build it again against this host's `wit/`.",
    ),
    no(
        "PLUGIN.COMPILE",
        422,
        "The plugin can't be compiled",
        "Build it again with the toolchain that `plugins/README.md` names.",
    ),
    no(
        "PLUGIN.CONFIG",
        422,
        "A transport's `config` isn't valid",
        "Correct the key at the place named; `waybill plugin inspect NAME` lists what it takes.",
    ),
    no(
        "PLUGIN.GRANT",
        422,
        "An entry of `allow` isn't a pattern",
        "Write `tcp://HOST:PORT`, `http://HOST[:PORT]` or `https://HOST[:PORT]`; HOST may be `*.name`, a network or `*`.",
    ),
    again(
        "PLUGIN.OPEN_FAILED",
        422,
        "A transport didn't open",
        "Follow the text: correct `config`, `secrets` or `allow`, or start the peer.",
    ),
    no(
        "PLUGIN.DIGEST_MISMATCH",
        422,
        "The component isn't the one that was pinned",
        "Put the component that was meant in place, or correct the pin (`waybill plugin inspect FILE` shows the digest). The running generation goes on meanwhile.",
    ),
    no(
        "PLUGIN.SIGNATURE_MISSING",
        422,
        "The component isn't signed",
        "Have its author sign it, or sign it yourself after a look at it: `waybill plugin sign FILE --key KEY`.",
    ),
    no(
        "PLUGIN.SIGNATURE_BAD",
        422,
        "The component's signature isn't good",
        "Fetch both again from where they come from. `waybill plugin verify FILE` tells whether they fit.",
    ),
    no(
        "PLUGIN.KEY_UNKNOWN",
        422,
        "The component is signed by somebody this host doesn't trust",
        "Make sure by another way whose key it is, then add it: `trusted_keys = { acme = \"...\" }`.",
    ),
    again(
        "PLUGIN.PROBE_FAILED",
        422,
        "A new plugin was tried and didn't work",
        "Do what the text says and load it again. The running generation goes on. If only the peer is away, `--force` takes it all the same.",
    ),
    again("PLUGIN.CLOSED", 503, "The transport has ended", "Nothing: the messages are sent after the restart."),
    again(
        "PLUGIN.WRITE",
        507,
        "A component can't be put in the plugins folder",
        "Check `plugins.folder`, its permissions and the free space, and send it again. The running generation goes on.",
    ),
];
