//! The page at `/ui`: its templates, over the same views that the API answers with. It asks no service, knows no request and no session;
//! `waybill-server` asks, and hands over what was answered.
//!
//! | file | holds |
//! |---|---|
//! | `frame` | what every view has around it |
//! | `navigation` | the ways to the views, with numbers |
//! | `environment` | which host it is, and what stands around it |
//! | `views` | the views, one function each |
//! | `parts`, `states`, `icon` | what views are made of, over closed types |
//! | `list` | lists, where a value that all rows have stands in the heading |
//! | `depth` | how much waits, of several together |
//! | `live` | numbers that change while a view is looked at |
//! | `acts` | what can be done: the table of acts, their targets and forms |
//! | `chart` | charts and sparklines |
//! | `payload` | payloads as people read them |
//! | `chips` | how a filter was understood, each condition removable |
//! | `prose` | help pages, which are Markdown |
//! | `text`, `time` | texts of others with marks, numbers, instants |
//! | `address` | addresses of views |
//! | `assets` | style sheet, script and sign, under names with their hashes |
//!
//! Templates escape by type, and whatever others wrote goes through [`text::foreign`], which marks what can't be seen. There is no
//! `style=`: the page's policy takes none.

pub use maud::Markup;

pub mod acts;
pub mod address;
pub mod assets;
pub mod chart;
mod chips;
mod depth;
pub mod environment;
pub mod frame;
mod icon;
mod list;
pub mod live;
mod navigation;
pub mod parts;
mod payload;
mod prose;
mod states;
pub mod text;
pub mod time;
pub mod views;
