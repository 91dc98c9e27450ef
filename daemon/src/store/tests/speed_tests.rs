//! What an append and a page cost, and that neither depends on the length of the log.

use super::*;
use std::time::{Duration, Instant};

const APPENDS: u64 = 1_500;

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_and_a_page_cost_the_same_however_long_the_log_is() {
    let (_dir, store) = fresh();
    let id = session(1);
    let text = "x".repeat(600);
    let mut times = Vec::new();
    for seq in 0..APPENDS {
        let began = Instant::now();
        store.append(append(&id, seq, vec![notice(&text)])).await.unwrap();
        times.push(began.elapsed());
    }
    let half = times.len() / 2;
    let (first, last) = times.split_at_mut(half);
    let (first, last) = (median(first), median(last));

    let mut synced = Vec::new();
    for seq in APPENDS..APPENDS + 50 {
        let began = Instant::now();
        store.append(append(&id, seq, vec![input(&text)])).await.unwrap();
        synced.push(began.elapsed());
    }
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let began = Instant::now();
        assert_eq!(store.events_after(&id, 0, 100).await.unwrap().len(), 100);
        head.push(began.elapsed());
        let began = Instant::now();
        assert_eq!(store.events_before(&id, Seq::MAX, 100).await.unwrap().len(), 100);
        tail.push(began.elapsed());
    }
    let (head, tail) = (median(&mut head), median(&mut tail));
    println!("append NORMAL: median {first:?} in the first half, {last:?} in the second");
    println!("append FULL: median {:?}", median(&mut synced));
    println!("page of 100: first {head:?}, last {tail:?}");
    // Wide, because the machine is shared; a cost that grows with the log would be a factor of hundreds.
    assert!(last < first * 10, "{first:?} became {last:?}");
    assert!(tail < head * 10, "{head:?} became {tail:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_is_read_quickly() {
    let (_dir, store) = fresh();
    let appends = (0..2_000).map(|n| store.append(append(&session(n), 0, vec![notice("x")])));
    for result in futures_util::future::join_all(appends).await {
        result.unwrap();
    }
    let began = Instant::now();
    let rows = store.list(Default::default()).await.unwrap();
    let took = began.elapsed();
    println!("list of {}: {took:?}", rows.len());
    assert_eq!(rows.len(), 2_000);
    assert!(took < Duration::from_secs(2), "{took:?}");
}
