//! A real chromium without a window, and the site of the page in it, for tests of what browsers are told.
//!
//! Each browser has a profile of its own and each site a port, so parallel tests never meet. Names that end with `.example` are this
//! machine: a page may be of another site than the host that it asks. Where no such browser is there it fails loudly: a test that skips
//! itself proves nothing.

mod chromium;
mod site;

pub use chromium::{Browser, find_browser};
pub use site::Site;
