//! Where records live: hash → slot → cell, and which slots make up an application.

mod apps;
mod index;
mod slots;

pub(crate) use apps::{App, Apps};
pub(crate) use index::{Candidates, Index, KeyHash};
pub(crate) use slots::Slots;
