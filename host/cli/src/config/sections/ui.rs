//! `[ui]`: the page.

use waybill_server::ui::{Colour, Environment};

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
    let colour = section.choice("color", "grey", &Colour::ALL);
    section.done();
    enabled.then(|| Environment { name: name.value, colour: colour.unwrap_or_default() })
}
