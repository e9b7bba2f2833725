//! What the application asked for since the stream last looked.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::SubscriptionId;
use crate::WatchOptions;

/// Wishes in their order.
#[derive(Debug, Default)]
pub(super) struct Orders {
    book: Mutex<Book>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Book {
    given: u64,
    orders: Vec<Order>,
}

/// One wish.
#[derive(Debug)]
pub(super) enum Order {
    Add(SubscriptionId, WatchOptions),
    Remove(SubscriptionId),
}

impl Orders {
    pub(super) fn subscribe(&self, options: WatchOptions) -> SubscriptionId {
        let mut book = self.book();
        book.given += 1;
        let id = SubscriptionId(book.given);
        book.orders.push(Order::Add(id, options));
        drop(book);
        self.news.notify_one();
        id
    }

    pub(super) fn unsubscribe(&self, id: SubscriptionId) {
        self.book().orders.push(Order::Remove(id));
        self.news.notify_one();
    }

    /// Everything that was asked for since the last time.
    pub(super) fn take(&self) -> Vec<Order> {
        std::mem::take(&mut self.book().orders)
    }

    /// Waits for the next wish.
    pub(super) async fn given(&self) {
        self.news.notified().await;
    }

    /// Consistent after every statement, so a panic elsewhere does not spoil it.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
