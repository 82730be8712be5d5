//! Sessions that nobody uses: what they cost, when they are over, and what still happens in them.

use super::store::Shaky;
use super::*;

/// Long enough that what can rest does.
const RESTED: Duration = Duration::from_secs(90);

fn set_timer(live: &Arc<Live>, after: Duration) {
    live.cell().with(|session| session.set_timer(after, "later", false, live.now())).expect("set");
}

#[tokio::test(start_paused = true)]
async fn the_store_hears_nothing_of_sessions_that_nobody_uses() {
    let inner = memory().await;
    let shaky = Shaky::new(&inner);
    let store: Arc<dyn Store> = shaky.clone();
    let process = ALONE.start(&store).await;
    for count in 0..400 {
        let id = process.begin().await;
        if count % 2 == 0 {
            // One that stays in memory.
            set_timer(&process.live(&id).await, TTL * 2);
        }
    }
    tokio::time::sleep(RESTED).await;
    assert_eq!((process.gateway.sessions(), process.gateway.sessions_resting()), (200, 200));
    let before = shaky.of_sessions.load(Ordering::SeqCst);
    tokio::time::sleep(TTL - RESTED * 2).await;
    assert_eq!(shaky.of_sessions.load(Ordering::SeqCst), before, "within most of an hour");
    assert_eq!((process.gateway.sessions(), process.gateway.sessions_resting()), (200, 200));
    // The others are over by themselves; these have to be removed.
    tokio::time::sleep(RESTED * 3).await;
    assert_eq!((process.gateway.sessions(), process.gateway.sessions_resting()), (0, 0));
    let words = keys(&inner).await;
    assert!(words.len() == 200 && words.iter().all(|key| key.ends_with(":owner")), "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_rest_have_no_task() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    tokio::time::sleep(RESTED).await;
    let before = tasks();
    for _ in 0..1_000 {
        let id = process.begin().await;
        tell(&process.live(&id).await, 1);
    }
    tokio::time::sleep(RESTED).await;
    assert_eq!((process.gateway.sessions(), process.gateway.sessions_resting()), (0, 1_000));
    assert_eq!(tasks(), before, "a thousand sessions later");
    // Ones that stay in memory, for something that is to happen later, are looked after together.
    for _ in 0..200 {
        let id = process.begin().await;
        set_timer(&process.live(&id).await, TTL);
    }
    tokio::time::sleep(RESTED).await;
    assert_eq!((process.gateway.sessions(), process.gateway.sessions_resting()), (200, 1_000));
    assert!(tasks() <= before + 2, "{} tasks of {before} for 200 sessions with a timer", tasks());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_goes_on_is_kept_and_its_store_hears_of_it_three_times_in_its_life() {
    let inner = memory().await;
    let shaky = Shaky::new(&inner);
    let store: Arc<dyn Store> = shaky.clone();
    let process = ALONE.start(&store).await;
    let id = process.begin().await;
    // Its client listens, and says nothing.
    let listening = process.seat(&id).await.expect("a session").listen();
    tokio::time::sleep(RESTED).await;
    let before = shaky.of_sessions.load(Ordering::SeqCst);
    tokio::time::sleep(TTL * 4).await;
    let wrote = shaky.of_sessions.load(Ordering::SeqCst) - before;
    assert!((10..=14).contains(&wrote), "{wrote}");
    assert_eq!(owner(&inner, &id).await, "1 alone 1");
    drop(listening);
}

#[tokio::test(start_paused = true)]
async fn a_timer_fires_on_time_although_nobody_uses_its_session() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let id = process.begin().await;
    let after = Duration::from_secs(1_800);
    set_timer(&process.live(&id).await, after);
    tokio::time::sleep(after - Duration::from_secs(5)).await;
    let live = process.awake(&id).expect("it has something to do");
    assert_eq!(waiting(&live), 0);
    drop(live);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let told = store.range(&key(&id, "events"), 0, 9).await.expect("an answer");
    assert_eq!(told.len(), 1, "nobody had to ask");
    tokio::time::sleep(RESTED).await;
    assert!(process.awake(&id).is_none(), "nothing is left to do");
    assert_eq!(waiting(&process.live(&id).await), 1, "told to whoever comes back");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_rest_count_among_those_that_may_be_until_they_are_over() {
    let store = memory().await;
    let process = Node { sessions_max: 2, ..ALONE }.start(&store).await;
    let (first, second) = (process.begin().await, process.begin().await);
    tokio::time::sleep(RESTED).await;
    assert_eq!((process.gateway.sessions(), process.gateway.sessions_resting()), (0, 2));
    assert!(process.try_begin().await.is_err(), "two are there, though not in memory");
    process.seat(&first).await.expect("a session").end(Cancel::SessionEnd);
    let third = process.begin().await;
    assert!(process.try_begin().await.is_err());
    tokio::time::sleep(TTL - RESTED / 2).await;
    assert_eq!(process.locate(&second).await, Place::Here);
    assert!(process.awake(&second).is_none(), "nobody has used it for long");
    assert!(process.awake(&third).is_none());
    process.begin().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_rests_can_be_ended_and_is_gone() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let id = process.begin().await;
    tokio::time::sleep(RESTED).await;
    assert!(process.awake(&id).is_none());
    let seat = process.seat(&id).await.expect("a session");
    seat.end(Cancel::SessionEnd);
    seat.ended().await;
    assert_eq!(owner(&store, &id).await, "3 gone -");
    assert_eq!(process.gateway.sessions_resting(), 0);
    assert!(process.seat(&id).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_be_written_out_goes_on_here() {
    let inner = memory().await;
    let shaky = Shaky::new(&inner);
    let store: Arc<dyn Store> = shaky.clone();
    let process = ALONE.start(&store).await;
    let id = process.begin().await;
    tell(&process.live(&id).await, 1);
    tokio::time::sleep(Duration::from_secs(30)).await;
    shaky.away(true);
    tokio::time::sleep(RESTED).await;
    tell(&process.awake(&id).expect("it goes on"), 1);
    shaky.away(false);
    tokio::time::sleep(RESTED).await;
    assert!(process.awake(&id).is_none());
    assert_eq!(waiting(&process.live(&id).await), 2);
}
