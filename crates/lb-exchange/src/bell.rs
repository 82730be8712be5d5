//! A waker for several things that are polled by one task and wake each other.
//!
//! Both ends of an HTTP connection are such things, to the server behind as to the client in front. A runtime takes a
//! task that is woken while it runs for one that wants to yield: it queues it and wakes another thread to look for
//! work, once per call. So what rings while we poll is answered by polling once more, and only what rings otherwise
//! wakes the task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// How often a ring is answered at once. The runtime's own budget rings until the task has yielded.
const ROUNDS_MAX: usize = 8;

/// The waker of one connection, whatever task polls it.
pub struct Bell {
    line: Arc<Line>,
    waker: Waker,
}

#[derive(Default)]
struct Line {
    task: AtomicWaker,
    /// Whether somebody polls and will look at `rung`.
    attended: AtomicBool,
    rung: AtomicBool,
}

impl Wake for Line {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // In this order, and the other end in the opposite one: one of the two always sees the other.
        self.rung.store(true, Ordering::SeqCst);
        if !self.attended.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

impl Default for Bell {
    fn default() -> Self {
        let line = Arc::<Line>::default();
        Self { waker: Waker::from(line.clone()), line }
    }
}

impl Bell {
    /// Polls for the task of `cx`, and again for as long as that rings the bell.
    pub fn poll<T>(&self, cx: &mut Context<'_>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        self.line.task.register(cx.waker());
        let mut own = Context::from_waker(&self.waker);
        for _ in 0..ROUNDS_MAX {
            self.line.attended.store(true, Ordering::SeqCst);
            // A swap, not a store: it must see what whoever rang last has done before.
            self.line.rung.swap(false, Ordering::SeqCst);
            let polled = poll(&mut own);
            self.line.attended.store(false, Ordering::SeqCst);
            if polled.is_ready() || !self.line.rung.load(Ordering::SeqCst) {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll(bell: &Bell, task: &Arc<Task>, with: impl FnMut(&mut Context<'_>) -> Poll<()>) -> Poll<()> {
        bell.poll(&mut Context::from_waker(&Waker::from(task.clone())), with)
    }

    #[test]
    fn a_ring_while_polling_is_answered_by_polling_again() {
        let (bell, task) = (Bell::default(), Arc::<Task>::default());
        let mut polls = 0;
        let polled = poll(&bell, &task, |cx| {
            polls += 1;
            if polls == 1 {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        });
        assert_eq!((polled, polls, task.0.load(Ordering::Relaxed)), (Poll::Pending, 2, 0));
    }

    #[test]
    fn a_ring_at_any_other_time_wakes_the_task_that_polled_last() {
        let (bell, first, last) = (Bell::default(), Arc::<Task>::default(), Arc::<Task>::default());
        let mut waker = None;
        for task in [&first, &last] {
            assert_eq!(
                poll(&bell, task, |cx| {
                    waker = Some(cx.waker().clone());
                    Poll::Pending
                }),
                Poll::Pending
            );
        }
        waker.expect("it was polled").wake();
        assert_eq!((first.0.load(Ordering::Relaxed), last.0.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn one_who_rings_for_ever_is_left_to_the_runtime() {
        let (bell, task) = (Bell::default(), Arc::<Task>::default());
        let mut polls = 0;
        let polled = poll(&bell, &task, |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!((polled, polls, task.0.load(Ordering::Relaxed)), (Poll::Pending, ROUNDS_MAX, 1));
    }

    /// Every ring of another thread leads to a poll after it.
    #[test]
    fn no_ring_of_another_thread_is_lost() {
        let (bell, task) = (Bell::default(), Arc::<Task>::default());
        let wanted = Arc::new(AtomicUsize::new(0));
        let mut waker = None;
        assert!(
            poll(&bell, &task, |cx| {
                waker = Some(cx.waker().clone());
                Poll::Pending
            })
            .is_pending()
        );
        let waker = waker.expect("it was polled");
        let ringing = std::thread::spawn({
            let wanted = wanted.clone();
            move || {
                for number in 1..=20_000 {
                    wanted.store(number, Ordering::SeqCst);
                    waker.wake_by_ref();
                }
            }
        });
        let (mut seen, mut woken) = (0, 0);
        let begun = std::time::Instant::now();
        while seen < 20_000 && begun.elapsed().as_secs() < 20 {
            // As a runtime does: poll only when woken.
            let now = task.0.load(Ordering::SeqCst);
            if woken == now && seen != 0 {
                std::hint::spin_loop();
                continue;
            }
            woken = now;
            assert!(
                poll(&bell, &task, |_| {
                    seen = wanted.load(Ordering::SeqCst);
                    Poll::Pending
                })
                .is_pending()
            );
        }
        ringing.join().expect("it rings");
        assert_eq!(seen, 20_000);
    }
}
