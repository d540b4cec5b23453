//! Memory and tables of one instance, summed over all its memories and tables.

use std::sync::Arc;

use metrics::Gauge;
use wasmtime::ResourceLimiter;

use super::context::EndpointContext;
use crate::limits::{CORE_INSTANCES_MAX, MEMORIES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX};
use crate::meters::Bound;

/// Counts what an instance holds and refuses more.
pub(crate) struct Limiter {
    memory_bytes_max: usize,
    memory_bytes: usize,
    table_elements: usize,
    refused: Option<Bound>,
    gauge: Gauge,
    /// Whose hits are counted; none where nobody looks.
    context: Option<Arc<EndpointContext>>,
}

impl Limiter {
    pub(crate) fn new(memory_bytes_max: usize, gauge: Gauge) -> Self {
        Self { memory_bytes_max, memory_bytes: 0, table_elements: 0, refused: None, gauge, context: None }
    }

    /// Of an instance of this endpoint.
    pub(crate) fn of(context: &Arc<EndpointContext>) -> Self {
        let mut own = Self::new(context.limits.memory_bytes, context.meters.memory.clone());
        own.context = Some(Arc::clone(context));
        own
    }

    /// What the guest asked too much of, if it ever did: tells a trap for lack of memory from others.
    pub(crate) fn refused(&self) -> Option<Bound> {
        self.refused
    }

    fn refuse(&mut self, bound: Bound) {
        self.refused = Some(bound);
        if let Some(context) = &self.context {
            context.meters.hit(bound);
        }
    }

    fn grow(total: &mut usize, current: usize, desired: usize, max: usize) -> Option<usize> {
        let growth = desired.saturating_sub(current);
        let sum = total.checked_add(growth).filter(|sum| *sum <= max)?;
        *total = sum;
        Some(growth)
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        match Self::grow(&mut self.memory_bytes, current, desired, self.memory_bytes_max) {
            Some(growth) => {
                #[expect(clippy::cast_precision_loss, reason = "a gauge; far below 2^52")]
                self.gauge.increment(growth as f64);
                if let Some(context) = &self.context {
                    context.meters.tally.memory_grew(growth);
                }
                Ok(true)
            }
            None => {
                self.refuse(Bound::Memory);
                Ok(false)
            }
        }
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let grown = Self::grow(&mut self.table_elements, current, desired, TABLE_ELEMENTS_MAX).is_some();
        if !grown {
            self.refuse(Bound::Tables);
        }
        Ok(grown)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge; far below 2^52")]
        self.gauge.decrement(self.memory_bytes as f64);
        if let Some(context) = &self.context {
            context.meters.tally.memory_freed(self.memory_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn memories_are_summed() {
        let mut limiter = Limiter::new(100, Gauge::noop());
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 60, None).unwrap());
        assert_eq!(limiter.refused(), Some(Bound::Memory));
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert!(!limiter.memory_growing(100, 101, None).unwrap());
    }

    #[test]
    fn tables_are_summed() {
        let mut limiter = Limiter::new(0, Gauge::noop());
        assert!(limiter.table_growing(0, TABLE_ELEMENTS_MAX, None).unwrap());
        assert!(!limiter.table_growing(0, 1, None).unwrap());
        assert_eq!(limiter.refused(), Some(Bound::Tables));
    }
}
