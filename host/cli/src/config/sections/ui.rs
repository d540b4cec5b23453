//! `[ui]`: the page.

use waybill_server::ui::{BasePath, Colour, Environment, TraceUrl};

use crate::config::reader::Section;

/// Longest name of an environment, in letters: it stands beside the product's in the title.
const NAME_LETTERS_MAX: usize = 40;

/// Reads `[ui]`; none = there is no page.
pub fn ui(mut section: Section<'_, '_>) -> Option<Environment> {
    let enabled = section.boolean("enabled", true);
    let name = section.text("name", "a word for this host, e.g. \"production\"", "");
    if name.value.chars().count() > NAME_LETTERS_MAX || name.value.chars().any(char::is_control) {
        section.refuse("name", &name, format!("it takes at most {NAME_LETTERS_MAX} letters on one line"));
    }
    let is_read_only = section.boolean("read_only", false);
    let colour = section.choice("color", "grey", &Colour::ALL);
    let base = section.text("base_path", "a path that begins with a slash, e.g. \"/waybill\"", "");
    let base_path = BasePath::new(&base.value);
    if base_path.is_none() {
        section.refuse(
            "base_path",
            &base,
            "it takes names with a slash before each and none behind, e.g. \"/waybill\"",
        );
    }
    let template = section.text("trace_url", "an address with {trace_id} in it", "");
    let trace_url = TraceUrl::new(&template.value);
    if trace_url.is_none() && !template.value.is_empty() {
        let takes = "it takes an address that begins with https:// or http:// and has {trace_id} once, e.g. \
                     \"https://traces.example/trace/{trace_id}\"";
        section.refuse("trace_url", &template, takes);
    }
    section.done();
    let (colour, base_path) = (colour.unwrap_or_default(), base_path.unwrap_or_default());
    enabled.then_some(Environment { name: name.value, colour, base_path, is_read_only, trace_url })
}
