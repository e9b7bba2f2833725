//! Who is overdue, found by a pass over the leases while somebody asks.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use foldhash::fast::RandomState;
use heureka_model::Now;

use super::Asking;
use crate::Registry;
use crate::leases::LeaseView;

impl Registry {
    /// Drops what was reported by instances that are gone, and tells who became overdue and who is no more. Part of
    /// every tick.
    pub(crate) fn look_at_readings(&self, now: Now) {
        let readings = &self.readings;
        let is_current = |slot: u32, life: &super::Life| self.slots.lease(slot).belongs_to(life.fingerprint);
        if readings.any.load(Ordering::Acquire) {
            readings.board.lock().sweep(is_current);
        }
        if readings.asking.load(Ordering::Acquire) == 0 {
            return readings.board.lock().forget_overdue();
        }
        self.look_for_overdue(now);
    }

    /// Makes a reader one of those who are told who is overdue.
    pub(crate) fn ask_for_overdue(&self, now: Now) -> Asking {
        let asking = Asking::new(&self.readings.asking);
        if self.readings.asking.load(Ordering::Acquire) == 1 {
            self.look_for_overdue(now);
        }
        asking
    }

    fn look_for_overdue(&self, now: Now) {
        let late = self.late(now);
        let known = self.readings.board.lock().overdue().clone();
        late.difference(&known).for_each(|slot| self.suspect(*slot, true));
        known.difference(&late).for_each(|slot| self.suspect(*slot, false));
        if late != known {
            self.readings.any.store(true, Ordering::Release);
            self.readings.news.send_modify(|_| {});
        }
    }

    fn suspect(&self, slot: u32, suspect: bool) {
        let Some((_, record)) = self.slots.record(slot) else { return };
        let life = self.life_of(slot, &record);
        if record.is_live() || !suspect {
            self.readings.board.lock().suspect(slot, life, record.app(), suspect);
        }
    }

    /// Slots whose last sign of life is older than it may be. One pass over all leases, without a lock.
    fn late(&self, now: Now) -> HashSet<u32, RandomState> {
        let mut late = HashSet::default();
        let is_late = |view: LeaseView| {
            let patience = (view.interval() * 3 / 2).as_millis().min(u128::from(view.duration_ms(false)));
            self.age(view.renewed, now).as_millis() > patience
        };
        for (first, leases) in self.slots.leases() {
            for (slot, lease) in (first..).zip(leases) {
                if lease.view().is_some_and(is_late) {
                    late.insert(slot);
                }
            }
        }
        late
    }
}
