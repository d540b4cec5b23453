//! What running sagas still need of a participant, as they go.

use super::*;
use crate::saga::event::StepDirection::{Compensate, Execute};

/// A step of the participant `shop`, undone by itself.
fn shop(name: &str) -> String {
    format!("[[steps]]\nname = \"{name}\"\naction = \"fn:shop/{name}\"\ncompensation = \"fn:shop/{name}\"\n")
}

impl Bench {
    /// `a` is the action of step `a`, `-a` its compensation.
    fn needs(&self) -> Vec<String> {
        let needs = self.shard.step_needs("shop");
        let mut needs: Vec<String> = needs
            .into_keys()
            .map(|(address, way)| match way {
                Execute => address.step,
                Compensate => format!("-{}", address.step),
            })
            .collect();
        needs.sort();
        needs
    }
}

#[test]
fn what_is_ahead_and_what_may_be_undone_is_needed() {
    let mut bench = bench(&format!("{}{}", shop("a"), shop("b")));
    bench.start();
    assert_eq!(bench.needs(), ["-a", "-b", "a", "b"]);
    bench.answer("a", done());
    assert_eq!(bench.needs(), ["-a", "-b", "b"], "it is done, and may be undone");
    bench.answer("b", refused());
    assert_eq!(bench.needs(), ["-a"], "b had no effect");
    bench.answer("a", done());
    assert_eq!((bench.needs(), bench.state()), (vec![], SagaState::Cancelled));
}

#[test]
fn a_step_whose_effect_is_unknown_is_needed_both_ways() {
    let mut bench = bench(&shop("a"));
    bench.start();
    bench.answer("a", unknown());
    assert_eq!(bench.needs(), ["-a", "a"]);
}

#[test]
fn a_compensation_that_gave_up_is_needed_until_somebody_decides() {
    let mut bench = bench(&format!("{}{}", shop("a"), shop("b")));
    bench.start();
    bench.answer("a", done());
    bench.answer("b", refused());
    bench.answer("a", refused());
    assert_eq!((bench.needs(), bench.state()), (vec!["-a".to_owned()], SagaState::Failed));
    bench.act(SagaAct::Skip { step: "a".to_owned() }).unwrap();
    assert_eq!(bench.needs(), [""; 0]);
}

#[test]
fn another_participants_steps_are_not_needed_and_those_of_nobody_by_name_are() {
    let text = "[[steps]]\nname = \"a\"\naction = \"fn:bank/a\"\n[[steps]]\nname = \"b\"\naction = \"fn:b\"\n";
    let mut bench = bench(text);
    bench.start();
    assert_eq!(bench.needs(), ["b"]);
}

#[test]
fn a_held_saga_needs_what_it_needed() {
    let mut bench = bench(&shop("a"));
    bench.start();
    bench.act(SagaAct::Pause).unwrap();
    assert_eq!(bench.needs(), ["-a", "a"]);
    bench.act(SagaAct::Kill).unwrap();
    assert_eq!(bench.needs(), [""; 0]);
}

#[test]
fn steps_of_sub_sagas_are_needed_before_they_begin_and_as_long_as_their_parent_may_go_back() {
    let child = |text: &str| Arc::new(parse(text, DefinitionFormat::Toml).unwrap().definition);
    let below = child(&format!("name = \"pay\"\n{}", shop("a")));
    let wait = "[[steps]]\nname = \"go\"\naction = \"wait:go\"\n";
    let pay = "[[steps]]\nname = \"pay\"\naction = \"saga:pay\"\n";
    let mut bench = bench(&format!("{wait}{pay}{}", wait.replace("go", "on")));
    let root = Arc::clone(bench.definitions.root());
    bench.definitions = Arc::new(DefinitionSet::new(root, vec![(Arc::from("saga:pay"), below)]));
    bench.start();
    assert_eq!(bench.needs(), ["-a", "a"], "it hasn't begun");
    bench.signal("go").unwrap();
    assert_eq!(bench.needs(), ["-a", "a"]);
    bench.answer("a", done());
    assert_eq!(bench.needs(), ["-a"], "it has completed, its parent hasn't");
    bench.signal("on").unwrap();
    assert_eq!((bench.needs(), bench.state()), (vec![], SagaState::Completed));
}

#[test]
fn each_need_tells_how_many_sagas_have_it_and_one_of_them() {
    let mut bench = bench(&shop("a"));
    for id in ["t", "s"] {
        let key = SagaKey { id: SagaId::root(id).unwrap(), ..key() };
        let new = bench.new_saga(key, "{}", 0);
        bench.submit(SagaCommand::Start(Box::new(new))).unwrap();
    }
    let needs = bench.shard.step_needs("shop");
    assert!(needs.values().all(|(sagas, example)| (*sagas, example) == (2, &key())), "{needs:?}");
}
