//! The warm-start store.
mod figures;
pub(crate) use figures::Figures;
