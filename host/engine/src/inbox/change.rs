//! What a running host can't take over of another configuration.

use std::collections::BTreeMap;

use waybill_core::code::Code;
use waybill_core::port::transport::Fault;

use super::config::InboundConfig;

/// Why `next` can't follow `before`, if so: what was seen of a source, or by a consumer, lies at a home, and would be looked for at
/// another one.
pub(crate) fn refusal(before: &InboundConfig, next: &InboundConfig) -> Option<Fault> {
    let (old, new) = (homes(before), homes(next));
    let moved = new.into_iter().find_map(|(of, home)| {
        let stays = old.get(&of).copied().filter(|stays| *stays != home)?;
        Some((of, stays, home))
    });
    let (of, stays, home) = moved?;
    let reason = format!(
        "{of} has home {stays:?}, where what was seen is remembered, and would have home {home:?}: keep its home, or give it another \
         name if it really starts anew"
    );
    Some(Fault::new(Code::INBOX_OTHER_HOME, reason))
}

/// The homes of sources, and of consumers by their sources.
fn homes(config: &InboundConfig) -> BTreeMap<String, &str> {
    let sources =
        config.sources.iter().map(|source| (format!("source {:?}", source.name.as_str()), source.home.as_str()));
    let consumers = config.consumers.iter().filter_map(|consumer| {
        let first = config.sources.iter().find(|source| consumer.sources.contains(&source.name))?;
        Some((format!("consumer {:?}", consumer.name.as_str()), first.home.as_str()))
    });
    sources.chain(consumers).collect()
}
