//! The lock of a cell: one that loom can see into where its tests are built, the usual one otherwise.

#[cfg(not(feature = "loom"))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

#[cfg(feature = "loom")]
pub(crate) use self::seen::{Mutex, MutexGuard};

#[cfg(feature = "loom")]
mod seen {
    pub(crate) use loom::sync::MutexGuard;

    /// With the face of the usual lock, which a panic does not poison.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}
