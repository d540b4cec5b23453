//! Which tables, sources and consumers a configuration has. How each comes about is another matter at a start than while a host runs.

use std::sync::Arc;

use waybill_engine::{ConsumerConfig, SourceConfig, TableConfig};
use waybill_store::SurrealStore;

use super::opener::ConfiguredSource;
use super::{Inbound, direct_of, inbox_of};
use crate::config::Config;
use crate::config::inbound::{Consumer, Direct, Publish, Source};
use crate::plugins::inbound::{PreparedSource, publisher};

/// A source whose table is published directly.
#[derive(Clone, Copy)]
pub(super) struct Published<'a> {
    pub source: &'a Source,
    pub consumer: &'a Consumer,
    pub direct: Direct,
}

/// How the parts of a configuration come about.
pub(super) trait Makes {
    type Error;

    async fn table(
        &mut self,
        published: Published<'_>,
        prepared: PreparedSource,
    ) -> Result<Arc<TableConfig>, Self::Error>;

    /// One that goes through the inbox, with its plugin.
    async fn source(
        &mut self,
        source: &Source,
        prepared: PreparedSource,
    ) -> Result<(Arc<SourceConfig>, Arc<ConfiguredSource>), Self::Error>;

    fn consumer(&mut self, consumer: &Consumer) -> Result<Arc<ConsumerConfig>, Self::Error>;
}

/// All that a configuration has.
pub(super) async fn all<M: Makes>(
    config: &Config,
    sources: Vec<PreparedSource>,
    store: &Arc<SurrealStore>,
    mut makes: M,
) -> Result<Inbound, M::Error> {
    let (mut pulled, mut tables, mut plugins) = (Vec::new(), Vec::new(), Vec::new());
    for prepared in sources {
        let Some(source) = config.sources.iter().find(|source| source.name == prepared.name) else { continue };
        match publisher(config, source).map(|consumer| (consumer, consumer.publish)) {
            Some((consumer, Publish::Direct(direct))) => {
                tables.push(makes.table(Published { source, consumer, direct }, prepared).await?);
            }
            _ => {
                let (one, plugin) = makes.source(source, prepared).await?;
                plugins.push(plugin);
                pulled.push(one);
            }
        }
    }
    let stored = config.consumers.iter().filter(|consumer| consumer.publish == Publish::Stored);
    let consumers = stored.map(|consumer| makes.consumer(consumer)).collect::<Result<_, _>>()?;
    let inbox = Arc::new(inbox_of(config, pulled, consumers, store));
    Ok(Inbound { inbox, direct: direct_of(tables, store), plugins })
}
