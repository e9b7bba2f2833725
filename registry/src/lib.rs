//! The core of the registry: no sockets, no clock, no tasks.
//!
//! Callers hand in parsed values, an origin and one reading of the clocks. Every mutation becomes one numbered
//! change in `apply` and nowhere else; everything that anybody reads (lists, the Eureka delta, watches) is a view
//! of the one compacted log or of the records that it orders. The core knows neither wire and starts no task:
//! somebody calls [`Registry::tick`] once a second.
//!
//! ```text
//! register renew cancel override ──> admission ──> apply ──> log: revision, cell, index, ring
//!                       tick: leases, preservation ──┘         │
//!        get, lists, delta, Subscription <─────────────────────┘
//! ```

mod admission;
mod app_cache;
mod apply;
mod beats;
mod cancel;
mod config;
mod early;
mod error;
mod events;
mod leases;
mod log;
mod metadata;
mod origin;
mod outlook;
mod overrides;
mod pauses;
mod preservation;
mod readings;
mod reads;
mod record;
mod register;
mod registry;
mod renew;
pub mod replication;
mod request;
mod restore;
pub mod seeded;
mod store;
mod sync;
#[cfg(test)]
mod tests;
mod tick;
mod timers;
mod views;
mod watch;

pub use app_cache::{AppCache, AppMark, LIST_AGE_MAX};
pub use config::{Config, Preservation, PreservationMode, Removals, Seeds};
pub use error::Refused;
pub use events::{Cause, Event, EventKind};
pub use log::Told;
pub use origin::{Origin, Surface};
pub use outlook::{Next, Outlook};
pub use readings::{Gauges, Lane, LaneWish};
pub use registry::Registry;
pub use replication::{Adoption, Content, KeyState, Merged, OwnerState};
pub use request::{
    AppSummary, Application, Beat, Cancelled, Claim, Delta, Entry, MetadataPatch, Page, RegisterMode,
    Registered, Renewed, SetOverride, Stats, Writer,
};
pub use views::{Best, By, Choice, Reader, Subset, View};
pub use watch::{AppDigest, Batch, Extent, Frame, Place, Start, Subscription, TakesLong, ToldApps};
