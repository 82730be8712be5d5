//! Rates that all nodes of a store keep to together.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lb_exchange::Tasks;
use lb_http::{Rate, Together};
use lb_store::{Store, Taken, Window};

/// Rates that are counted at one time. Settings have two, and those before the last change may still be in use.
const RATES_MAX: usize = 4;

/// The counts, in a store.
#[derive(Debug)]
pub struct Rates {
    store: Arc<dyn Store>,
    tasks: Tasks,
    /// The newest last.
    windows: Mutex<Vec<(Rate, Arc<Window>)>>,
}

impl Rates {
    /// Counts in this store, and brings the counts together in these tasks.
    pub fn new(store: Arc<dyn Store>, tasks: Tasks) -> Self {
        Self { store, tasks, windows: Mutex::default() }
    }

    fn window(&self, rate: Rate) -> Option<Arc<Window>> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, window)) = windows.iter().find(|(known, _)| *known == rate) {
            return Some(window.clone());
        }
        let name = format!("rate-{}-{}", rate.max, rate.window.as_millis());
        let window = Arc::new(Window::new(self.store.clone(), &name, rate.max.into(), rate.window).ok()?);
        let (running, tasks) = (Window::run(&window), self.tasks.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = running => {}
                () = tasks.stopping() => {}
            }
        });
        if windows.len() == RATES_MAX {
            windows.remove(0);
        }
        windows.push((rate, window.clone()));
        Some(window)
    }
}

impl Together for Rates {
    fn take(&self, who: &str, rate: Rate) -> Option<Duration> {
        match self.window(rate)?.take(who) {
            Taken::Within => None,
            Taken::Over(left) => Some(left),
        }
    }
}
