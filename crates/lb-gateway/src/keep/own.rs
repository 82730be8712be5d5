//! Whose a session is: how it is claimed, what follows when it is not ours any more, and how it is let go of.

use lb_store::{Applied, Batch, Error};

use super::Keeper;
use super::owner::{Holder, Owner};
use super::pieces::STEPS_MAX;
use super::write::{Ended, State, Stop, Writing, Wrote};

/// Attempts to set the owner in place of what was found, when that changes meanwhile.
const ATTEMPTS: usize = 4;

impl Writing {
    /// Makes us the owner, where we are not yet.
    pub(super) async fn claim(&self, state: &mut State, keeper: &Keeper) -> Result<(), Stop> {
        for _ in 0..ATTEMPTS {
            let Some(instead_of) = state.claim.clone() else { return Ok(()) };
            let (ttl, tried) = (keeper.ttl(), std::mem::replace(&mut state.tried, true));
            let batch = Batch::new().when(&self.keys.owner, instead_of).set(&self.keys.owner, state.owner.value(), ttl);
            match keeper.store().apply(batch.set(&self.keys.head, state.head.bytes().clone(), ttl)).await {
                Ok(Applied::Done(_)) => {
                    state.claim = None;
                    self.set_owned();
                }
                Ok(Applied::Refused(_)) => self.resolve(state, keeper).await?,
                Err(error) => {
                    // A store that has no room has certainly not done it.
                    state.tried = tried || !matches!(error, Error::Full(_) | Error::TooLarge { .. });
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// The owner's key is not what we wrote: it is another's, or the store has lost what we wrote.
    pub(super) async fn resolve(&self, state: &mut State, keeper: &Keeper) -> Result<(), Stop> {
        let found = keeper.store().get(&self.keys.owner).await?;
        let owner = match &found {
            Some(value) => Some(Owner::read(value).ok_or_else(|| self.unreadable())?),
            None => None,
        };
        match owner {
            Some(owner) if owner == state.owner => {
                state.claim = None;
                self.set_owned();
            }
            Some(owner) if state.follows && owner.holder == Holder::Gone && !self.is_owned() => {
                state.owner.epoch = owner.epoch + 1;
                state.claim = Some(found);
            }
            Some(owner) if state.owner.is_behind(&owner) && !(self.is_owned() && owner.is_assumed()) => {
                return Err(Stop::Lost);
            }
            older => {
                tracing::warn!(session = self.hash(), "the store has lost a session, which is written anew");
                let epoch = older.map_or(0, |owner| owner.epoch).max(state.owner.epoch) + 1;
                state.owner.epoch = epoch;
                (state.claim, state.tried) = (Some(found), true);
                state.start_anew();
            }
        }
        Ok(())
    }

    /// Whether it is still ours, as far as can be told: true as well while the store does not answer.
    pub(crate) async fn verify(&self, keeper: &Keeper) -> bool {
        let generation = keeper.generation();
        // First: who has another one says so before that is certain.
        let certain = !self.is_assumed() || keeper.nodes().may_be_dead().await.is_ok();
        let mut state = self.state.lock().await;
        match state.end {
            Some(Ended::Lost | Ended::Released) => return false,
            Some(Ended::Erased) => return true,
            None => {}
        }
        if state.claim.is_some() {
            // Nobody can have it whose first word was not written.
            return true;
        }
        let verified = match keeper.store().get(&self.keys.owner).await {
            Ok(Some(value)) if value == state.owner.value() => Ok(()),
            Ok(_) => self.resolve(&mut state, keeper).await,
            Err(error) => Err(Stop::Later(error)),
        };
        match verified {
            Ok(()) => {
                if certain {
                    self.set_certain();
                }
                self.set_verified(generation);
                if state.claim.is_some() || state.life != Some(keeper.nodes().store_life()) {
                    // Others cannot find it before that is written.
                    state.pause = None;
                    keeper.mark(&self.id);
                    keeper.hurry.notify_one();
                }
                true
            }
            Err(Stop::Later(_) | Stop::More) => true,
            Err(Stop::Lost) => {
                self.concluded(&mut state, keeper, Err(Stop::Lost));
                keeper.put_down(self);
                false
            }
        }
    }

    /// Writes everything, and lets go of it: whoever its client comes to next has all of it.
    pub(super) async fn release(&self, keeper: &Keeper) -> Wrote {
        let mut state = self.state.lock().await;
        if let Some(end) = state.end {
            return Wrote::Ended(end);
        }
        let written = match self.write_all(&mut state, keeper).await {
            Ok(()) if state.end.is_none() => self.let_go(&mut state, keeper).await,
            other => other,
        };
        self.concluded(&mut state, keeper, written)
    }

    /// Whether it is written to its end and belongs to nobody, as far as is known.
    pub(crate) fn is_released(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| state.end == Some(Ended::Released))
    }

    /// From here on it is nobody's, and what is kept of it goes by itself when nobody has used it for long.
    async fn let_go(&self, state: &mut State, keeper: &Keeper) -> Result<(), Stop> {
        let (ours, nobodys, ttl) = (state.owner.value(), state.owner.released(), self.left(keeper));
        let keys = &self.keys;
        let batch = Batch::new().when(&keys.owner, Some(ours)).set(&keys.owner, nobodys.value(), ttl);
        let batch = batch.expire(&keys.head, ttl).expire(&keys.record, ttl);
        let batch = batch.expire(&keys.events, ttl).expire(&keys.streams, ttl);
        let batch = state
            .tasks
            .iter()
            .take(STEPS_MAX)
            .try_fold(batch, |batch, id| Ok::<_, Error>(batch.expire(&keys.task(*id)?, ttl)))?;
        if let Applied::Refused(_) = keeper.store().apply(batch).await? {
            let found = keeper.store().get(&self.keys.owner).await?;
            if found != Some(nobodys.value()) {
                self.resolve(state, keeper).await?;
                return Err(Stop::Later(Error::WrongShape("a session changed while it was let go of")));
            }
        }
        state.end = Some(Ended::Released);
        Ok(())
    }

    /// Removes all that is kept of it, but for a word that it was.
    pub(super) async fn erase(&self, state: &mut State, keeper: &Keeper) -> Result<(), Stop> {
        state.clear();
        let mut expected = Some(state.owner.value());
        let never_written = state.claim.is_some() && !state.tried;
        for _ in 0..ATTEMPTS {
            if never_written || expected.is_none() {
                state.end = Some(Ended::Erased);
                return Ok(());
            }
            while STEPS_MAX < state.tasks.len() + 8 {
                let Some(id) = state.tasks.pop_first() else { break };
                let task = self.keys.task(id)?;
                keeper.store().apply(Batch::new().when(&self.keys.owner, expected.clone()).delete(&task)).await?;
            }
            let erased = match keeper.store().apply(self.erasure(state, expected.clone(), Some(keeper.ttl()))?).await {
                // Room is worth more than the word that there was one.
                Err(Error::Full(_)) => keeper.store().apply(self.erasure(state, expected.clone(), None)?).await,
                other => other,
            };
            match erased? {
                Applied::Done(_) => expected = None,
                Applied::Refused(_) => expected = self.erasable(state, keeper).await?,
            }
        }
        Err(Stop::Later(Error::WrongShape("the owner of a session changes while it ends")))
    }

    /// Removes everything, and leaves a word for this long, if at all.
    fn erasure(
        &self,
        state: &State,
        expected: Option<bytes::Bytes>,
        word: Option<std::time::Duration>,
    ) -> Result<Batch, Error> {
        let keys = &self.keys;
        let batch = Batch::new().when(&keys.owner, expected);
        let batch = match word {
            Some(ttl) => batch.set(&keys.owner, state.owner.gone().value(), ttl),
            None => batch.delete(&keys.owner),
        };
        let batch = batch.delete(&keys.head).delete(&keys.record).delete(&keys.events).delete(&keys.streams);
        state.tasks.iter().try_fold(batch, |batch, id| Ok(batch.delete(&keys.task(*id)?)))
    }

    /// What is in the place of our owner's key, if what goes with it is ours to remove.
    async fn erasable(&self, state: &State, keeper: &Keeper) -> Result<Option<bytes::Bytes>, Stop> {
        let found = keeper.store().get(&self.keys.owner).await?;
        let owner = found.as_deref().and_then(Owner::read);
        let is_ours = |owner: &Owner| owner.holder != Holder::Gone && !state.owner.is_behind(owner);
        Ok(found.filter(|_| owner.is_some_and(|owner| is_ours(&owner) || owner == state.owner)))
    }

    fn unreadable(&self) -> Stop {
        tracing::error!(session = self.hash(), key = %self.keys.owner, "store_record_unreadable");
        Stop::Lost
    }
}
