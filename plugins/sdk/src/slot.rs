//! The open plugin of an instance, between `open` and `close`. For the macros that export a world.

use std::cell::RefCell;
use std::rc::Rc;

use crate::transport::PluginError;

/// Holds the plugin for as long as it is open.
#[doc(hidden)]
pub struct Slot<T>(RefCell<Option<Rc<T>>>);

impl<T> Slot<T> {
    /// For an instance that the host has not opened yet.
    #[allow(clippy::new_without_default, reason = "made in one place, by a macro, in a const")]
    pub const fn new() -> Self {
        Self(RefCell::new(None))
    }

    /// Keeps what `open` made.
    pub fn put(&self, plugin: T) {
        self.0.replace(Some(Rc::new(plugin)));
    }

    /// The open plugin.
    ///
    /// # Errors
    /// The host called before `open` or after `close`.
    pub fn get(&self) -> Result<Rc<T>, PluginError> {
        self.0.borrow().clone().ok_or_else(|| PluginError::internal("called while not open"))
    }

    /// Takes it out, for `close`.
    pub fn take(&self) -> Option<Rc<T>> {
        self.0.borrow_mut().take()
    }
}
