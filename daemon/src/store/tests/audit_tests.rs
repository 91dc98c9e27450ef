//! The audit chain shows what was changed or removed from outside.

use super::*;
use crate::ports::AuditVerdict;
use agentd_core::limits;

async fn verdict_after(damage: &str) -> AuditVerdict {
    let (dir, store) = fresh();
    let id = session(1);
    for n in 0..3 {
        let mut one = append(&id, n, vec![notice("x")]);
        one.audit = vec![audit(&id, "decided"), audit(&id, "finished")];
        store.append(one).await.unwrap();
    }
    let outside = rusqlite::Connection::open(dir.path().join("agentd.db")).unwrap();
    outside.execute_batch(damage).unwrap();
    store.verify_audit().await.unwrap()
}

#[tokio::test]
async fn damage_is_found_at_its_row() {
    for (damage, rows, first_bad) in [
        ("", 6, None),
        ("UPDATE audit SET outcome = 'ok' WHERE audit_no = 3", 6, Some(3)),
        ("UPDATE audit SET rule = NULL WHERE audit_no = 1", 6, Some(1)),
        ("UPDATE audit SET at_ms = at_ms + 1 WHERE audit_no = 6", 6, Some(6)),
        ("UPDATE audit SET hash = zeroblob(32) WHERE audit_no = 4", 6, Some(4)),
        ("UPDATE audit SET prev_hash = zeroblob(32) WHERE audit_no = 4", 6, Some(4)),
        ("DELETE FROM audit WHERE audit_no = 4", 5, Some(4)),
        ("DELETE FROM audit WHERE audit_no = 1", 5, Some(1)),
        ("DELETE FROM audit WHERE audit_no > 4", 4, Some(5)),
        ("DELETE FROM audit", 0, Some(1)),
    ] {
        assert_eq!(verdict_after(damage).await, AuditVerdict { rows, first_bad }, "{damage}");
    }
}

#[tokio::test]
async fn a_cut_end_stays_visible_after_a_restart_and_new_rows() {
    let (dir, store) = fresh();
    let id = session(1);
    let mut one = append(&id, 0, vec![notice("x")]);
    one.audit = vec![audit(&id, "decided"), audit(&id, "finished")];
    store.append(one).await.unwrap();
    drop(store);
    let outside = rusqlite::Connection::open(dir.path().join("agentd.db")).unwrap();
    outside.execute_batch("DELETE FROM audit WHERE audit_no = 2").unwrap();
    drop(outside);
    let store = open(dir.path()).unwrap();
    let mut two = append(&id, 1, vec![notice("y")]);
    two.audit = vec![audit(&id, "decided")];
    store.append(two).await.unwrap();
    assert_eq!(store.verify_audit().await.unwrap(), AuditVerdict { rows: 2, first_bad: Some(2) });
}

#[tokio::test]
async fn a_chain_longer_than_a_page_is_walked_to_its_end() {
    let (_dir, store) = fresh();
    let id = session(1);
    let mut one = append(&id, 0, vec![notice("x")]);
    one.audit = vec![audit(&id, "decided"); limits::AUDIT_PAGE_ROWS + 1];
    let rows = one.audit.len() as u64;
    store.append(one).await.unwrap();
    assert_eq!(store.verify_audit().await.unwrap(), AuditVerdict { rows, first_bad: None });
}
