//! What others wrote, on the operator's terminal.

use waybill_cli::exit::Exit;

use crate::support::waybill;

/// A component that is nothing but a manifest.
fn component_of(manifest: &str) -> Vec<u8> {
    let name = b"waybill-plugin";
    let content = [&[u8::try_from(name.len()).unwrap()][..], name, manifest.as_bytes()].concat();
    let mut left = content.len();
    let mut length = Vec::new();
    while left > 0x7f {
        length.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
        left >>= 7;
    }
    length.push(u8::try_from(left).unwrap());
    [&b"\0asm\x0d\0\x01\0\0"[..], &length[..], &content[..]].concat()
}

/// Whoever looks at a plugin doesn't trust it yet.
#[test]
fn a_hostile_manifest_does_not_draw_on_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.wasm");
    let inspect = |manifest: &str| {
        std::fs::write(&file, component_of(manifest)).unwrap();
        let done = waybill(&["plugin", "inspect", file.to_str().unwrap()]).run();
        for text in [&done.out, &done.err] {
            assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
        }
        done
    };
    let head = "name = 'x'\nversion = '1.0.0'\nworld = 'transport'\ncontract = '0.1.0'\n";
    let schema = r#"config_schema = '{"type":"object","properties":{"a\u001b[2Kb":{"description":"c\u001b[1Ad\u009b\nnothing"}}}'"#;
    let shown = inspect(&format!("{head}description = \"e\\u001b[2Kf\"\n{schema}\n"));
    assert_eq!(shown.exit, Exit::Done, "{}", shown.err);
    for text in ["a\\u{1b}[2Kb", "c\\u{1b}[1Ad\\u{9b}", "e\\u{1b}[2Kf"] {
        assert!(shown.out.contains(text), "{}", shown.out);
    }
    // Told in the refusal of a secret's name, and quoted from a line that isn't TOML.
    for rest in
        ["description = 'x'\n[ask]\nsecrets = [\"a\\u001b[2K\"]\n", "description = 'x\u{1b}[2K'\n", "\u{9b}2K\n"]
    {
        let refused = inspect(&format!("{head}{rest}"));
        assert_eq!(refused.exit, Exit::Failed, "{}", refused.out);
        assert!(refused.err.contains("PLUGIN.BAD_MANIFEST"), "{}", refused.all());
    }
}
