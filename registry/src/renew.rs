//! Renewing: the hot path.

use heureka_model::{KeyRef, Now, Status, Wall};

use crate::admission::fold;
use crate::apply::{OwnerWrite, Renewal, Write};
use crate::early::NEXT;
use crate::events::Cause;
use crate::leases::Heard;
use crate::record::Life;
use crate::seeded::{Bug, planted};
use crate::store::KeyHash;
use crate::{Beat, Origin, Refused, Registry, Renewed};

/// Consecutive renewals of one process after which a record of another is taken for left behind.
const FOREIGN_BEATS: u8 = 3;

impl Registry {
    /// Renews a lease: one look-up and one store while nothing is compared. A `status` that differs from the
    /// owner's stored one is a write of the owner's record.
    ///
    /// While the server is learning what there is, the renewal of a key of which nothing is known yet is taken and
    /// counts once the key comes.
    ///
    /// # Errors
    /// [`Refused::NotFound`], also over REST for an instance whose owner reported UNKNOWN, unless this reports a status;
    /// [`Refused::Outdated`] when the caller knows a newer record, with the lease renewed all the same;
    /// [`Refused::Conflict`] when a peer knows an older one.
    pub fn renew(
        &self,
        key: KeyRef<'_>,
        beat: Beat,
        status: Option<Status>,
        origin: &Origin,
        now: Now,
    ) -> Result<Renewed, Refused> {
        let hash = self.index.hash(key);
        let renewed = self.index.read(hash, |slots| {
            let slot = slots.iter().find(|slot| self.slots.lease(*slot).belongs_to(hash.fingerprint));
            slot.map(|slot| self.beat(slot, hash, beat, status.is_some(), origin, now))
        });
        let Some(renewed) = renewed else { return self.renew_unknown(key, hash, origin, now) };
        let renewed = renewed?;
        if let Some(status) = status {
            self.report_status(key, status, origin, now)?;
        }
        Ok(renewed)
    }

    fn renew_unknown(
        &self,
        key: KeyRef<'_>,
        hash: KeyHash,
        origin: &Origin,
        now: Now,
    ) -> Result<Renewed, Refused> {
        let removed = planted(Bug::RemovedRenewed) && self.slot_of(key).is_some();
        let taken = removed
            || origin.heard() > Heard::Peer
                && !planted(Bug::LearningRefuses)
                && self.slot_of(key).is_none()
                && self.early.note(hash, self.moment(now));
        if taken { Ok(Renewed { override_status: None, next: NEXT }) } else { Err(Refused::NotFound) }
    }

    fn beat(
        &self,
        slot: u32,
        hash: KeyHash,
        beat: Beat,
        tells_status: bool,
        origin: &Origin,
        now: Now,
    ) -> Result<Renewed, Refused> {
        let lease = self.slots.lease(slot);
        let view = lease.view().ok_or(Refused::NotFound)?;
        if view.is_unknown() && origin.is_rest() && !tells_status {
            return Err(Refused::NotFound);
        }
        if !self.renew_slot(slot, hash, origin, now) {
            return Err(Refused::NotFound);
        }
        if beat != Beat::Plain {
            self.compare(slot, beat, now)?;
        }
        let override_status = view.is_overridden().then(|| self.slots.record(slot)).flatten();
        let override_status = override_status.and_then(|(_, record)| record.overlay().status);
        Ok(Renewed { override_status: override_status.map(|set| set.status), next: view.interval() })
    }

    /// Compares what a renewal tells with the stored record.
    fn compare(&self, slot: u32, beat: Beat, now: Now) -> Result<(), Refused> {
        let Some((revision, record)) = self.slots.record(slot) else { return Err(Refused::NotFound) };
        let known = record.head().dirty;
        match beat {
            Beat::Plain => Ok(()),
            Beat::Writer(writer) if writer.version > record.head().owner => Err(Refused::Outdated),
            Beat::Writer(writer) if fold(writer.incarnation) != record.head().incarnation => {
                self.count_foreign(slot, fold(writer.incarnation))
            }
            Beat::Writer(_) => {
                self.lower_beats.clear(slot);
                Ok(())
            }
            Beat::Stamp(stamp) if Some(stamp) > known => Err(Refused::Outdated),
            // To peers our version goes out as the stamp.
            Beat::PeerStamp(stamp) if stamp.0 > record.head().latest() => Err(Refused::Outdated),
            Beat::PeerStamp(stamp) if Some(stamp) < known => {
                Err(Refused::Conflict(Box::new(record.registration(revision, self.renewed(slot, now)))))
            }
            Beat::Stamp(stamp) if Some(stamp) < known => {
                self.lower_beats.count(slot, stamp);
                Ok(())
            }
            Beat::Stamp(_) | Beat::PeerStamp(_) => {
                self.lower_beats.clear(slot);
                Ok(())
            }
        }
    }

    /// A record that another process wrote last is kept alive by this one. After some renewals without one of that
    /// other, it is gone, and what it left does not describe who renews: that one is to register.
    fn count_foreign(&self, slot: u32, process: u64) -> Result<(), Refused> {
        if self.lower_beats.count(slot, Wall(process)) < FOREIGN_BEATS {
            return Ok(());
        }
        self.lower_beats.clear(slot);
        Err(Refused::Outdated)
    }

    fn report_status(
        &self,
        key: KeyRef<'_>,
        status: Status,
        origin: &Origin,
        now: Now,
    ) -> Result<(), Refused> {
        self.with_key(key, now, |key| {
            let record = key.live()?.record.clone();
            if record.head().status == status {
                return Ok(());
            }
            let owner = OwnerWrite::after(&record, status);
            key.write(&Write::owner(owner, Life::Live, Renewal::Keep, Cause::StatusReported), origin)
        })
    }
}
