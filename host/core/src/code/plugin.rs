//! Codes of plugins: what can't be loaded or changed, what became of a call, and what the contract has a source say.

codes! {
    PLUGIN_AMBIGUOUS_STEP = "PLUGIN.AMBIGUOUS_STEP" => answered(409, "Several participants serve the step",
        "Have only one of them serve it, or write which one is meant, `fn:PARTICIPANT/STEP`, in definitions to come; what runs goes by the old ones until it has ended.");
    PLUGIN_BAD_CODE = "PLUGIN.BAD_CODE";
    PLUGIN_BAD_MANIFEST = "PLUGIN.BAD_MANIFEST" => answered(422, "The plugin's manifest can't be read",
        "Correct `waybill-plugin.toml` and build the plugin again; `plugins/README.md` describes it.");
    PLUGIN_BATCH_LIMIT = "PLUGIN.BATCH_LIMIT";
    PLUGIN_BREAKER_OPEN = "PLUGIN.BREAKER_OPEN";
    PLUGIN_BUILD_FAILED = "PLUGIN.BUILD_FAILED";
    PLUGIN_BUSY = "PLUGIN.BUSY";
    PLUGIN_CACHE = "PLUGIN.CACHE";
    PLUGIN_CLOSED = "PLUGIN.CLOSED" => retryable(503, "The transport has ended",
        "Nothing: the messages are sent after the restart.");
    PLUGIN_COMPILE = "PLUGIN.COMPILE" => answered(422, "The plugin can't be compiled",
        "Build it again with the toolchain that `plugins/README.md` names.");
    PLUGIN_COMPILER = "PLUGIN.COMPILER" => retryable(422, "The process that compiles plugins doesn't work",
        "Do what the text says: look for a limit on processes or memory, or a mount with `noexec`.");
    PLUGIN_COMPILE_CRASHED = "PLUGIN.COMPILE_CRASHED" => answered(422, "The compiler crashed on the plugin",
        "Build it with another version of its toolchain, and report the file with the text.");
    PLUGIN_COMPILE_MEMORY = "PLUGIN.COMPILE_MEMORY" => answered(422, "Compiling the plugin took too much memory",
        "Build it smaller (`opt-level = \"s\"`, stripped), or raise `compile_memory` in [plugins].");
    PLUGIN_COMPILE_TIMEOUT = "PLUGIN.COMPILE_TIMEOUT" => answered(422, "Compiling the plugin took too long",
        "Build it smaller (`opt-level = \"s\"`, stripped), or raise `compile_cpu` in [plugins].");
    PLUGIN_CONFIG = "PLUGIN.CONFIG" => answered(422, "A transport's `config` isn't valid",
        "Correct the key at the place named; `waybill plugin inspect NAME` lists what it takes.");
    PLUGIN_CONTRACT = "PLUGIN.CONTRACT";
    PLUGIN_CONTRACT_VERSION = "PLUGIN.CONTRACT_VERSION" => answered(422,
        "The plugin was built for another version of the contract",
        "Build it against this host's `wit/`, or run a host that serves that version (`waybill version`).");
    PLUGIN_CORE_MODULE = "PLUGIN.CORE_MODULE" => answered(422, "The file is a core WebAssembly module, not a component",
        "Build for `wasm32-wasip2`.");
    PLUGIN_CPU = "PLUGIN.CPU";
    PLUGIN_DIGEST_MISMATCH = "PLUGIN.DIGEST_MISMATCH" => answered(422, "The component isn't the one that was pinned",
        "Put the component that was meant in place, or correct the pin (`waybill plugin inspect FILE` shows the digest). The running generation goes on meanwhile.");
    PLUGIN_DOWN = "PLUGIN.DOWN";
    PLUGIN_DRAINING = "PLUGIN.DRAINING" => retryable(503, "Earlier generations of the plugin still end their calls",
        "Wait until one of the generations that the text names has ended, and load it again: their transport's `drain_timeout` at most.");
    PLUGIN_ENGINE = "PLUGIN.ENGINE";
    PLUGIN_GIVEN_UP = "PLUGIN.GIVEN_UP";
    PLUGIN_GRANT = "PLUGIN.GRANT" => answered(422, "An entry of `allow` isn't a pattern",
        "Write `tcp://HOST:PORT`, `http://HOST[:PORT]` or `https://HOST[:PORT]`; HOST may be `*.name`, a network or `*`.");
    PLUGIN_GRANT_MISSING = "PLUGIN.GRANT_MISSING" => answered(422,
        "The plugin can't do without something that isn't granted",
        "Add the lines that the text names to the section it names.");
    PLUGIN_HOST_PANIC = "PLUGIN.HOST_PANIC";
    PLUGIN_INPUT_TOO_LARGE = "PLUGIN.INPUT_TOO_LARGE";
    PLUGIN_INSTANCES = "PLUGIN.INSTANCES" => answered(422, "More instances are configured than the plugin can run",
        "Lower `instances` to the number in the text.");
    PLUGIN_INTERNAL = "PLUGIN.INTERNAL";
    PLUGIN_KEY = "PLUGIN.KEY";
    PLUGIN_KEY_UNKNOWN = "PLUGIN.KEY_UNKNOWN" => answered(422,
        "The component is signed by somebody this host doesn't trust",
        "Make sure by another way whose key it is, then add it: `trusted_keys = { acme = \"...\" }`.");
    PLUGIN_KV_TOO_LARGE = "PLUGIN.KV_TOO_LARGE";
    PLUGIN_MEMORY = "PLUGIN.MEMORY";
    PLUGIN_MISSING_EXPORT = "PLUGIN.MISSING_EXPORT" => answered(422, "The plugin isn't what its manifest says",
        "Correct `world` in `waybill-plugin.toml`, or export the interface.");
    PLUGIN_NOT_A_COMPONENT = "PLUGIN.NOT_A_COMPONENT" => answered(422, "The file isn't a WebAssembly component",
        "Give the `.wasm` that the build for `wasm32-wasip2` made.");
    PLUGIN_NOT_IN_FOLDER = "PLUGIN.NOT_IN_FOLDER" => answered(409, "A component can't be handed over to this transport",
        "Set `plugins.folder`, name the plugin without a path (`plugin = \"acme\"` is `acme.wasm` there), or replace the file by yourself and reload.");
    PLUGIN_NO_CODE = "PLUGIN.NO_CODE";
    PLUGIN_NO_COMPENSATION = "PLUGIN.NO_COMPENSATION";
    PLUGIN_NO_MANIFEST = "PLUGIN.NO_MANIFEST" => answered(422, "The component carries no manifest",
        "Put `waybill-plugin.toml` beside its `Cargo.toml`, call the macro once, and build again.");
    PLUGIN_NO_PARTICIPANT = "PLUGIN.NO_PARTICIPANT";
    PLUGIN_NO_PREVIOUS = "PLUGIN.NO_PREVIOUS" => answered(409, "There is no earlier generation to go back to",
        "Load the component you want: `waybill plugin load FILE --transport NAME`.");
    PLUGIN_NO_PROVISIONING = "PLUGIN.NO_PROVISIONING" => answered(400,
        "The plugin has nothing to provision",
        "Create what is missing at the peer by hand.");
    PLUGIN_NO_STEP = "PLUGIN.NO_STEP";
    PLUGIN_OPEN_FAILED = "PLUGIN.OPEN_FAILED" => retryable(422, "A transport didn't open",
        "Follow the text: correct `config`, `secrets` or `allow`, or start the peer.");
    PLUGIN_OTHER_WORLD = "PLUGIN.OTHER_WORLD" => answered(422, "The plugin is of another kind than its place needs",
        "Name a plugin of the kind asked for; `waybill plugin inspect` shows its world.");
    PLUGIN_OUTPUT_TOO_LARGE = "PLUGIN.OUTPUT_TOO_LARGE";
    PLUGIN_PEER_BLOCKED = "PLUGIN.PEER_BLOCKED";
    PLUGIN_PRECOMPILED = "PLUGIN.PRECOMPILED" => answered(422, "The file is machine code",
        "Give the `.wasm` component it was made from.");
    PLUGIN_PROBATION_FAILED = "PLUGIN.PROBATION_FAILED";
    PLUGIN_PROBE_FAILED = "PLUGIN.PROBE_FAILED" => retryable(422, "A new plugin was tried and didn't work",
        "Do what the text says and load it again. The running generation goes on. If only the peer is away, `--force` takes it all the same.");
    PLUGIN_PROJECT = "PLUGIN.PROJECT";
    PLUGIN_PROVISION_CONFLICT = "PLUGIN.PROVISION_CONFLICT";
    PLUGIN_PROVISION_FAILED = "PLUGIN.PROVISION_FAILED" => retryable(502, "Provisioning failed",
        "Do what `detail` says; part of it may be in place, and the same request goes on from there.");
    PLUGIN_READ = "PLUGIN.READ" => retryable(422, "The plugin's file can't be read",
        "Check the path and its permissions.");
    PLUGIN_REMEMBERED_BAD = "PLUGIN.REMEMBERED_BAD" => answered(409, "The component was rolled back before",
        "Give a corrected component, or insist with `waybill plugin reload NAME --force`.");
    PLUGIN_ROLLED_BACK = "PLUGIN.ROLLED_BACK";
    PLUGIN_SIGNATURE_BAD = "PLUGIN.SIGNATURE_BAD" => answered(422, "The component's signature isn't good",
        "Fetch both again from where they come from. `waybill plugin verify FILE` tells whether they fit.");
    PLUGIN_SIGNATURE_MISSING = "PLUGIN.SIGNATURE_MISSING" => answered(422, "The component isn't signed",
        "Have its author sign it, or sign it yourself after a look at it: `waybill plugin sign FILE --key KEY`.");
    PLUGIN_STACK_OVERFLOW = "PLUGIN.STACK_OVERFLOW";
    PLUGIN_STEPS = "PLUGIN.STEPS" => answered(422, "The steps that a participant's plugin describes can't be served",
        "Correct the step that the text names in the plugin's code, and load it again.");
    PLUGIN_STEP_ADDRESS = "PLUGIN.STEP_ADDRESS";
    PLUGIN_STEP_NEEDED = "PLUGIN.STEP_NEEDED" => answered(409, "Running sagas still call a step that would be gone",
        "Give a component that serves what the text names, or wait until those sagas have ended. With `--force` it is taken all the same, and their calls wait.");
    PLUGIN_SWAPPING = "PLUGIN.SWAPPING";
    PLUGIN_TEST_FAILED = "PLUGIN.TEST_FAILED";
    PLUGIN_TIMED_OUT = "PLUGIN.TIMED_OUT";
    PLUGIN_TIMEOUT = "PLUGIN.TIMEOUT";
    PLUGIN_TOOL_MISSING = "PLUGIN.TOOL_MISSING";
    PLUGIN_TOO_LARGE = "PLUGIN.TOO_LARGE" => answered(422, "The component is too large",
        "Strip it, or build with `opt-level = \"s\"`.");
    PLUGIN_TRAPPED = "PLUGIN.TRAPPED";
    PLUGIN_TYPE_MISMATCH = "PLUGIN.TYPE_MISMATCH" => answered(422, "The component doesn't fit the contract",
        "Build it again against this host's `wit/`.");
    PLUGIN_UNKNOWN_IMPORT = "PLUGIN.UNKNOWN_IMPORT" => answered(422,
        "The component wants something that the host doesn't offer",
        "Remove the dependency that needs the import named.");
    PLUGIN_WRITE = "PLUGIN.WRITE" => retryable(507, "A component can't be put in the plugins folder",
        "Check `plugins.folder`, its permissions and the free space, and send it again. The running generation goes on.");
    SOURCE_NOT_FOUND = "SOURCE.NOT_FOUND" => answered(404, "There is no such source",
        "Check the name, or configure it.");
    SOURCE_OVERTAKEN = "SOURCE.OVERTAKEN";
}
