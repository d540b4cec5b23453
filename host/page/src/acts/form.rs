//! How an act is asked for: links to plans, and forms that do it.

use maud::{Markup, html};

use super::{Act, May, Target, Weight};

/// The way to an act's plan; one that the caller may not do names the role.
pub fn link(act: Act, target: &Target, may: May) -> Markup {
    let about = act.about();
    let class = if about.weight == Weight::Plain { "btn" } else { "btn risk" };
    html! {
        @if may.has(about.right) {
            a class=(class) href=(target.address(act)) { (about.word) "…" }
        } @else {
            span.btn role="link" aria-disabled="true" { (about.word) "…" span.hint { (may.lack(about.right)) } }
        }
    }
}

/// Several of them beside each other.
pub fn links(acts: &[Act], target: &Target, may: May) -> Markup {
    html! { @for act in acts { (link(*act, target, may)) } }
}

/// What goes with every form of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Only this page's forms have it.
    pub token: String,
    /// A second press with it does nothing anew.
    pub key: String,
}

/// A form that does an act at one press: what takes another back.
pub fn at_once(act: Act, target: &Target, form: &Form) -> Markup {
    html! {
        form method="post" action=(target.address(act)) {
            (hidden(form))
            button.btn { (act.about().word) }
        }
    }
}

/// The members that every form has.
pub(crate) fn hidden(form: &Form) -> Markup {
    html! {
        input type="hidden" name="form" value=(form.token);
        input type="hidden" name="press" value=(form.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_that_is_not_allowed_names_the_role() {
        let target = Target::named("bus");
        let shown = link(Act::TransportPause, &target, May { operate: true, ..May::default() }).0;
        assert!(shown.contains("aria-disabled") && shown.contains("admin for all tenants") && !shown.contains("href"));
        let shown = link(Act::TransportPause, &target, May { manage: true, ..May::default() }).0;
        assert!(shown.contains("/ui/plan?act=transport-pause&amp;id=bus"), "{shown}");
    }
}
