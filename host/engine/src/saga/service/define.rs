//! Definitions in and out.

use std::sync::Arc;

use waybill_api::saga_definitions::DefinitionView;
use waybill_core::port::saga::{Define, Defined, DefinitionFormat, RunningElsewhere};
use waybill_core::port::saga_store::DefinitionPut;
use waybill_core::saga::definition::problem::{Problem, Severity};
use waybill_core::saga::definition::{Action, Definition, DefinitionSet, Parsed, parse};
use waybill_core::saga::error::SagaError;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::is_name;
use waybill_core::saga::records::StoredDefinition;
use waybill_core::saga::state::{StepState, Tree};
use waybill_core::step_address::StepAddress;
use waybill_core::topic::Topic;

use super::Sagas;

/// Running sagas that are told of one definition.
const RUNNING_MAX: usize = 1_000;
/// Other versions that are told of one definition.
const VERSIONS_MAX: usize = 1_000;

/// What stands for the definitions that would be there when it is stored: of what they begin in turn nothing is known.
fn stand_ins(define: &Define) -> Result<Vec<Arc<Definition>>, SagaError> {
    let given = define.given.iter().filter(|_| define.dry_run);
    let stand_in = |(name, version): &(String, u32)| {
        let document = serde_json::json!({
            "name": name, "version": version, "steps": [{ "name": "given", "action": "wait:signal" }],
        });
        Ok(Arc::new(parse(&document.to_string(), DefinitionFormat::Json)?.definition))
    };
    given.map(stand_in).collect()
}

impl Sagas {
    pub(super) async fn put_definition(&self, define: Define) -> Result<Defined, SagaError> {
        let parsed = parse(&define.text, define.format)?;
        let root = Arc::new(parsed.definition.clone());
        let below = self.shared.definitions.below(self.store(), &root).await?;
        let given = stand_ins(&define)?;
        let lookup = |name: &str, version: Option<u32>| {
            let there = below.get(&(Arc::from(name), version)).cloned();
            let is_it =
                |one: &&Arc<Definition>| &*one.name == name && version.is_none_or(|version| version == one.version);
            there.or_else(|| given.iter().find(is_it).cloned())
        };
        DefinitionSet::resolve(Arc::clone(&root), Some(&parsed), lookup)?;
        let created = self.put(&root, &define).await?;
        let (running, running_count) = self.running_elsewhere(&root).await?;
        if created && !define.dry_run {
            let detail = serde_json::json!({ "version": root.version, "hash": root.hash });
            self.audit(self.event("SagaDefined", &define.actor, None, &root.name, detail)).await;
        }
        let warnings = self.warnings(&parsed);
        Ok(Defined { definition: root.reference(), created, dry_run: define.dry_run, warnings, running, running_count })
    }

    /// Stores it, or says what would come of it. True when it is new.
    async fn put(&self, definition: &Definition, define: &Define) -> Result<bool, SagaError> {
        let (name, version) = (definition.name.to_string(), definition.version);
        let stored = StoredDefinition {
            reference: definition.reference(),
            canonical: definition.canonical.clone(),
            created_at: self.now(),
            created_by: define.actor.clone(),
        };
        let put = if define.dry_run {
            match self.store().definition(&name, Some(version)).await? {
                None => DefinitionPut::Created,
                Some(there) if there.reference.hash == definition.hash => DefinitionPut::Same(there),
                Some(there) => DefinitionPut::Taken(there),
            }
        } else {
            let put = self.store().put_definition(&stored).await;
            self.shared.definitions.changed();
            put?
        };
        match put {
            DefinitionPut::Created => Ok(true),
            DefinitionPut::Same(_) => Ok(false),
            DefinitionPut::Taken(_) => Err(SagaError::VersionTaken { name, version }),
        }
    }

    /// What somebody should look at before sagas begin: of the definition itself, and of this host.
    fn warnings(&self, parsed: &Parsed) -> Vec<Problem> {
        let config = &self.shared.context.config.sagas;
        let mut served: Vec<(StepAddress, bool)> = Vec::new();
        for participant in config.participants.all() {
            let name = Some(participant.name().to_owned());
            let address = |step| StepAddress { participant: name.clone(), step };
            served.extend(participant.steps().into_iter().map(|step| (address(step.name), step.compensates)));
        }
        let mut warnings = parsed.warnings.clone();
        warnings.extend(parsed.check_participants(&served));
        for (index, step) in parsed.definition.steps.iter().enumerate() {
            let at = parsed.places.get(index).copied().unwrap_or_default();
            let mut warn = |field: &str, what: String, fix: &str| {
                let path = format!("steps[{index}].{field}");
                warnings.push(Problem { severity: Severity::Warning, at, path, what, fix: fix.to_owned() });
            };
            for (field, action) in [("action", Some(&step.action)), ("compensation", step.compensation.as_ref())] {
                match action {
                    Some(Action::Bus(subject)) if !self.has_route(subject) => {
                        warn(field, format!("no route matches bus:{subject}"), "add a [[route]] before sagas begin");
                    }
                    Some(Action::Http(_)) if config.http.is_none() => {
                        warn(field, "this host makes no http: calls for sagas".to_owned(), "use another kind of step");
                    }
                    _ => {}
                }
            }
            if let Some(plugin) = &step.retry_plugin
                && !self.has_policy(plugin)
            {
                warn(
                    "retry",
                    format!("no retry plugin {plugin:?} is loaded"),
                    "the step's own retry decides until it is",
                );
            }
        }
        warnings
    }

    fn has_route(&self, subject: &str) -> bool {
        let live = self.shared.context.live();
        Topic::parse(&format!("bus:{subject}")).is_ok_and(|topic| live.routing.routes.find(&topic).is_some())
    }

    fn has_policy(&self, name: &str) -> bool {
        let live = self.shared.context.live();
        let component = live.config.retries.component.as_ref();
        self.shared.context.config.sagas.policies.contains_key(name) || component.is_some_and(|it| it.name() == name)
    }

    /// Sagas of this name that haven't ended and run on another content, oldest first, and how many there are.
    async fn running_elsewhere(&self, new: &Arc<Definition>) -> Result<(Vec<RunningElsewhere>, u64), SagaError> {
        let definition = Some(waybill_core::glob::Glob::new(&*new.name));
        let filter = SagaFilter { definition, is_open: true, ..SagaFilter::default() };
        let mut keys = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = self.list_sagas(&filter, cursor.as_deref(), RUNNING_MAX).await?;
            let others = page.items.into_iter().filter(|saga| saga.definition.hash != new.hash);
            keys.extend(others.map(|saga| (saga.started_at, saga.key)));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        keys.sort();
        let count = keys.len() as u64;
        let mut running = Vec::new();
        for (_, key) in keys.into_iter().take(RUNNING_MAX) {
            // It may have ended since.
            let Ok((tree, definitions)) = self.tree(&key).await else { continue };
            let reason = why_not(&tree, definitions.root(), new);
            running.push(RunningElsewhere {
                tenant: key.tenant,
                id: key.id,
                definition: tree.started.definition.clone(),
                state: tree.state(),
                could_move: reason.is_none(),
                reason,
            });
        }
        Ok((running, count))
    }

    pub(super) async fn show_definition(&self, name: &str, version: Option<u32>) -> Result<DefinitionView, SagaError> {
        let missing = || SagaError::NoDefinition { name: name.to_owned() };
        if !is_name(name) {
            return Err(missing());
        }
        let versions = self.store().definitions(Some(name), None, VERSIONS_MAX).await?.items;
        let Some(latest) = versions.first().map(|stored| stored.reference.version) else { return Err(missing()) };
        let wanted = version.unwrap_or(latest);
        let stored = match versions.iter().find(|stored| stored.reference.version == wanted) {
            Some(stored) => stored.clone(),
            None => {
                let stored = self.store().definition(name, Some(wanted)).await?;
                stored.ok_or_else(|| SagaError::NoVersion { name: name.to_owned(), version: wanted, latest })?
            }
        };
        let mut known: Vec<u32> = versions.iter().map(|stored| stored.reference.version).chain([wanted]).collect();
        known.sort_unstable();
        known.dedup();
        let document = Some(stored.canonical.raw());
        Ok(DefinitionView { versions: Some(known), document, ..stored.into() })
    }
}

/// Why a saga couldn't go on with another definition; none = what it has begun is the same there.
fn why_not(tree: &Tree, old: &Definition, new: &Definition) -> Option<String> {
    let root = tree.root()?;
    for (index, record) in root.steps.iter().enumerate().filter(|(_, step)| step.state != StepState::Ready) {
        let (was, is) = (old.steps.get(index)?, new.steps.get(index));
        let name = &was.name;
        let Some(is) = is else { return Some(format!("it has begun step {name:?}, which isn't there")) };
        if is.name != was.name {
            return Some(format!("it has begun step {name:?}, where {:?} stands", is.name));
        }
        if (&is.action, &is.compensation, &is.input) != (&was.action, &was.compensation, &was.input) {
            return Some(format!("step {name:?}, which is {}, does something else", record.state.word()));
        }
    }
    None
}
