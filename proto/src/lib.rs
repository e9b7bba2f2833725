//! The native wire contract and its translation to and from the model.
