//! Tests the public API of the store: content, order, limits and errors.

use std::time::{Duration, UNIX_EPOCH};

use execbox_thread::{
    EventQuery, FileQuery, MessageQuery, Origin, ThreadError, ThreadLimits, ThreadQuery, ThreadState, ThreadStore,
};
use serde_json::{Value, json};

async fn thread() -> ThreadState {
    ThreadStore::in_memory().await.unwrap().thread("t").unwrap()
}

async fn thread_with(limits: ThreadLimits) -> ThreadState {
    ThreadStore::builder().limits(limits).in_memory().await.unwrap().thread("t").unwrap()
}

async fn paths(thread: &ThreadState, query: FileQuery) -> Vec<String> {
    thread.list_files(query).await.unwrap().into_iter().map(|file| file.path).collect()
}

async fn seqs(thread: &ThreadState, query: MessageQuery) -> Vec<u64> {
    thread.get_messages(query).await.unwrap().into_iter().map(|message| message.seq).collect()
}

// ---- Messages -------------------------------------------------------------------------------------

#[tokio::test]
async fn messages_are_returned_in_insertion_order() {
    let clock = || UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    let store = ThreadStore::builder().clock(clock).in_memory().await.unwrap();
    let thread = store.thread("t").unwrap();
    let first = thread.add_message("user", json!("hello")).await.unwrap();
    let second = thread.add_message("assistant", json!({"z": [1, null], "a": "ü"})).await.unwrap();
    assert_eq!((first.seq, second.seq, first.created_at), (1, 2, 1_700_000_000_123));
    let messages = thread.get_messages(MessageQuery::default()).await.unwrap();
    assert_eq!(messages, [first, second]);
    assert_eq!(
        serde_json::to_string(&messages[1]).unwrap(),
        r#"{"seq":2,"role":"assistant","content":{"z":[1,null],"a":"ü"},"createdAt":1700000000123}"#
    );
}

#[tokio::test]
async fn queries_page_through_messages_from_either_end() {
    let thread = thread().await;
    for number in 1..=250 {
        thread.add_message(if number % 2 == 0 { "assistant" } else { "user" }, json!(number)).await.unwrap();
    }
    let query = MessageQuery::default;
    assert_eq!(seqs(&thread, query()).await, (151..=250).collect::<Vec<_>>(), "the latest 100");
    assert_eq!(seqs(&thread, query().limit(2)).await, [249, 250]);
    assert_eq!(seqs(&thread, query().before(10).limit(2)).await, [8, 9]);
    assert_eq!(seqs(&thread, query().after(10).limit(2)).await, [11, 12]);
    assert_eq!(seqs(&thread, query().after(10).before(13)).await, [11, 12]);
    let assistant = query().roles(vec!["assistant".into()]).after(0).limit(2);
    assert_eq!(seqs(&thread, assistant).await, [2, 4]);
    assert_eq!(seqs(&thread, query().after(u64::MAX)).await, [0_u64; 0]);
    assert_eq!(seqs(&thread, query().limit(u32::MAX)).await.len(), 250);
}

#[tokio::test]
async fn pages_are_bounded_in_bytes_and_never_empty() {
    let thread = thread_with(ThreadLimits::default().page_bytes(1_000)).await;
    for size in [400, 400, 400, 5_000, 10] {
        thread.add_message("user", json!("x".repeat(size))).await.unwrap();
    }
    let (mut after, mut pages) = (0, Vec::new());
    loop {
        let page = seqs(&thread, MessageQuery::default().after(after)).await;
        let Some(last) = page.last() else { break };
        after = *last;
        pages.push(page);
    }
    assert_eq!(pages, [vec![1, 2], vec![3], vec![4], vec![5]]);
}

#[tokio::test]
async fn numbers_of_deleted_messages_are_not_reused() {
    let thread = thread().await;
    for _ in 0..3 {
        thread.add_message("user", json!(null)).await.unwrap();
    }
    assert_eq!(thread.delete_messages(2).await.unwrap(), 2);
    assert_eq!(seqs(&thread, MessageQuery::default()).await, [3]);
    assert_eq!(thread.delete_messages(u64::MAX).await.unwrap(), 1);
    assert_eq!(thread.add_message("user", json!(null)).await.unwrap().seq, 4);
}

// ---- Files ----------------------------------------------------------------------------------------

#[tokio::test]
async fn files_are_written_read_listed_and_deleted() {
    let thread = thread().await;
    thread.write_file("data/b.bin", [0, 255, 10]).await.unwrap();
    thread.write_file("/data/a.txt", "one").await.unwrap();
    thread.write_file("/data/a.txt", "two!").await.unwrap();
    thread.write_file("/database.txt", "").await.unwrap();
    thread.write_file("/data/deep/er/c", "").await.unwrap();

    assert_eq!(thread.read_file("/data//./b.bin").await.unwrap(), [0, 255, 10]);
    assert_eq!(thread.read_file("/data/a.txt").await.unwrap(), b"two!");
    let missing = thread.read_file("data/none").await.unwrap_err();
    assert_eq!(missing.to_string(), "no such file: /data/none");

    let all = ["/data/a.txt", "/data/b.bin", "/data/deep/er/c", "/database.txt"];
    assert_eq!(paths(&thread, FileQuery::default()).await, all);
    let under = |folder: &str| FileQuery::default().under(folder.to_owned());
    assert_eq!(paths(&thread, under("/data")).await, all[..3]);
    assert_eq!(paths(&thread, under("/data/deep/")).await, all[2..3]);
    assert_eq!(paths(&thread, under("/database.txt")).await, all[3..]);
    assert_eq!(paths(&thread, under("/database.txt/")).await, [""; 0]);
    assert_eq!(paths(&thread, under("/").after(all[1].to_owned()).limit(1)).await, all[2..3]);

    assert!(thread.delete_file("/data/a.txt").await.unwrap());
    assert!(!thread.delete_file("/data/a.txt").await.unwrap());
    assert_eq!(paths(&thread, FileQuery::default()).await, all[1..]);
}

#[tokio::test]
async fn files_are_replaced_only_if_their_content_is_the_expected_one() {
    let thread = thread().await;
    let replace = |expected: Option<&'static str>, new: &'static str| thread.replace_file("/a", expected, new);
    assert!(!replace(Some(""), "1").await.unwrap());
    assert_eq!(paths(&thread, FileQuery::default()).await, [""; 0]);
    assert!(replace(None, "1").await.unwrap());
    assert!(!replace(None, "2").await.unwrap());
    assert!(!replace(Some("2"), "3").await.unwrap());
    assert_eq!(thread.read_file("/a").await.unwrap(), b"1");
    assert!(replace(Some("1"), "2").await.unwrap());
    thread.delete_file("/a").await.unwrap();
    assert!(!replace(Some("2"), "3").await.unwrap());
    assert_eq!(paths(&thread, FileQuery::default()).await, [""; 0]);
}

#[tokio::test]
async fn invalid_paths_and_names_are_rejected() {
    let store = ThreadStore::in_memory().await.unwrap();
    let thread = store.thread("t").unwrap();
    for path in ["", "..", "/data/../../etc/passwd", "/a\0b", "a\\b", "/data/", "/", "/x\u{7f}", &"x".repeat(2_000)] {
        assert!(matches!(thread.write_file(path, "").await, Err(ThreadError::Path(_))), "{path:?}");
        assert!(matches!(thread.replace_file(path, Some(""), "").await, Err(ThreadError::Path(_))), "{path:?}");
        assert!(matches!(thread.read_file(path).await, Err(ThreadError::Path(_))), "{path:?}");
        assert!(matches!(thread.delete_file(path).await, Err(ThreadError::Path(_))), "{path:?}");
    }
    let long = "n".repeat(257);
    for name in ["", "a\nb", "a\0", &*long] {
        assert!(matches!(store.thread(name), Err(ThreadError::Name { .. })), "{name:?}");
        assert!(matches!(thread.emit(name, json!(1)).await, Err(ThreadError::Name { .. })), "{name:?}");
        assert!(matches!(thread.add_message(name, json!(1)).await, Err(ThreadError::Name { .. })), "{name:?}");
        assert!(matches!(thread.set_env(name, "v").await, Err(ThreadError::Name { .. })), "{name:?}");
    }
    assert_eq!(thread.set_env("a\nb", "v").await.unwrap_err().to_string(), NAME_ERROR);
    assert_eq!(store.threads(ThreadQuery::default()).await.unwrap(), []);

    // Names that look like SQL or like paths have no special meaning.
    for id in ["'; DROP TABLE threads; --", "../../x", "%", "ünï"] {
        let thread = store.thread(id).unwrap();
        thread.set_env(id, id).await.unwrap();
        assert_eq!(thread.get_env(id).await.unwrap().as_deref(), Some(id));
    }
    assert_eq!(store.threads(ThreadQuery::default()).await.unwrap().len(), 4);
}

const NAME_ERROR: &str = "invalid environment variable name: contains a control character";

// ---- Environment ----------------------------------------------------------------------------------

#[tokio::test]
async fn environment_values_do_not_appear_in_errors_or_debug_output() {
    let thread = thread_with(ThreadLimits::default().env_bytes(20)).await;
    thread.set_env("TOKEN", "s3cret").await.unwrap();
    thread.set_env("TOKEN", "s3cret2").await.unwrap();
    thread.set_env("URL", "").await.unwrap();
    assert_eq!(thread.get_env("TOKEN").await.unwrap().as_deref(), Some("s3cret2"));
    assert_eq!(thread.env_names().await.unwrap(), ["TOKEN", "URL"]);
    let error = thread.set_env("TOKEN", "s3cret-and-longer-than-20").await.unwrap_err();
    assert_eq!(error.to_string(), "environment value too large: 25 bytes; the limit is 20");
    assert!(!format!("{error:?} {thread:?}").contains("s3cret"));
    assert_eq!(thread.events(EventQuery::default()).await.unwrap(), [], "no event is emitted");
    assert!(thread.remove_env("URL").await.unwrap() && !thread.remove_env("URL").await.unwrap());
    assert_eq!(thread.get_env("URL").await.unwrap(), None);
}

// ---- Events ---------------------------------------------------------------------------------------

#[tokio::test]
async fn events_are_numbered_and_stored() {
    let thread = thread().await;
    for number in 1..=3 {
        let event = thread.emit("step", json!({"number": number})).await.unwrap();
        assert_eq!((event.seq, event.origin), (number, Origin::Host));
    }
    let events = thread.events(EventQuery::default().after(1).limit(1)).await.unwrap();
    assert_eq!((events.len(), events[0].seq, &events[0].data), (1, 2, &json!({"number": 2})));
    assert_eq!(thread.delete_events(2).await.unwrap(), 2);
    assert_eq!(thread.emit("step", json!(null)).await.unwrap().seq, 4);
}

#[tokio::test]
async fn a_subscription_returns_past_and_future_events_without_gaps() {
    let thread = thread().await;
    for number in 0..150 {
        thread.emit("early", json!(number)).await.unwrap();
    }
    let mut subscription = thread.subscribe(0);
    let writer = {
        let thread = thread.clone();
        tokio::spawn(async move {
            for number in 150..400 {
                thread.emit("late", json!(number)).await.unwrap();
            }
        })
    };
    for number in 0..400 {
        let event = subscription.next().await.unwrap().unwrap();
        assert_eq!((event.seq, event.data), (number + 1, json!(number)));
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn a_subscription_follows_one_thread_and_ends_with_it() {
    let store = ThreadStore::in_memory().await.unwrap();
    let (one, other) = (store.thread("one").unwrap(), store.thread("other").unwrap());
    let mut subscription = one.subscribe(0);
    other.emit("not for one", json!(null)).await.unwrap();
    one.emit("for one", json!(null)).await.unwrap();
    assert_eq!(subscription.next().await.unwrap().unwrap().name, "for one");
    let waiting = tokio::spawn(async move { subscription.next().await.unwrap() });
    tokio::task::yield_now().await;
    store.delete_thread("other").await.unwrap();
    store.delete_thread("one").await.unwrap();
    assert_eq!(waiting.await.unwrap(), None);
}

#[tokio::test]
async fn a_subscription_ends_when_the_store_is_closed() {
    let store = ThreadStore::in_memory().await.unwrap();
    let thread = store.thread("t").unwrap();
    let (mut waiting, mut later) = (thread.subscribe(0), thread.subscribe(0));
    let waiting = tokio::spawn(async move { waiting.next().await.unwrap() });
    tokio::task::yield_now().await;
    store.close().await;
    assert_eq!(waiting.await.unwrap(), None);
    assert_eq!(later.next().await.unwrap(), None);
    assert_eq!(thread.subscribe(0).next().await.unwrap(), None);
    assert!(matches!(thread.emit("x", json!(1)).await, Err(ThreadError::Closed)));
    store.close().await; // closing twice has no effect
}

// ---- Limits ---------------------------------------------------------------------------------------

#[tokio::test]
async fn values_beyond_their_limit_are_rejected() {
    let limits = ThreadLimits::default().file_bytes(10).message_bytes(10).event_bytes(10);
    let thread = thread_with(limits).await;
    let error = thread.write_file("/x", "12345678901").await.unwrap_err();
    assert_eq!(error.to_string(), "file too large: 11 bytes; the limit is 10");
    assert!(matches!(thread.add_message("user", json!("123456789")).await, Err(ThreadError::TooLarge { .. })));
    assert!(matches!(thread.emit("x", json!("123456789")).await, Err(ThreadError::TooLarge { .. })));
    thread.write_file("/x", "1234567890").await.unwrap();
    thread.add_message("user", json!("12345678")).await.unwrap();
}

#[tokio::test]
async fn a_full_thread_rejects_writes_until_something_is_deleted() {
    let thread = thread_with(ThreadLimits::default().thread_bytes(3_000)).await;
    thread.write_file("/a", [0; 2_000]).await.unwrap(); // 2 258
    let error = thread.write_file("/b", [0; 500]).await.unwrap_err();
    assert_eq!(error.to_string(), "thread storage is full: 758 more bytes needed, 742 of 3000 left");
    assert!(matches!(thread.read_file("/b").await, Err(ThreadError::NoSuchFile { .. })), "the write is rolled back");
    thread.write_file("/a", [0; 1_500]).await.unwrap(); // replaces the larger file
    thread.write_file("/b", [0; 500]).await.unwrap();
    thread.emit("x", json!(null)).await.unwrap();
    assert!(matches!(thread.emit("x", json!(null)).await, Err(ThreadError::Full { .. })), "small rows count, too");
    thread.delete_file("/a").await.unwrap();
    thread.emit("x", json!(null)).await.unwrap();
}

#[tokio::test]
async fn the_size_of_a_thread_is_the_sum_of_its_rows() {
    let store = ThreadStore::in_memory().await.unwrap();
    let thread = store.thread("t").unwrap();
    for round in 0..3_usize {
        thread.write_file("/a", vec![0; 100 * round]).await.unwrap();
        thread.set_env("NAME", "v".repeat(round)).await.unwrap();
        thread.add_message("user", json!("hi")).await.unwrap();
        thread.emit("x", json!("hi")).await.unwrap();
    }
    let bytes = || async { store.threads(ThreadQuery::default()).await.unwrap()[0].bytes };
    let expected = (256 + 2 + 200) + (256 + 4 + 2) + 3 * (256 + 4 + 4) + 3 * (256 + 1 + 4);
    assert_eq!(bytes().await, expected);
    thread.delete_messages(2).await.unwrap();
    thread.delete_events(3).await.unwrap();
    thread.remove_env("NAME").await.unwrap();
    assert_eq!(bytes().await, (256 + 2 + 200) + (256 + 4 + 4));
    thread.delete_file("/a").await.unwrap();
    thread.delete_messages(9).await.unwrap();
    assert_eq!(bytes().await, 0);
}

#[tokio::test]
async fn large_and_deep_values_are_stored_up_to_the_limits() {
    let thread = thread().await;
    let large = vec![7; 8 << 20];
    thread.write_file("/large", large.clone()).await.unwrap();
    assert_eq!(thread.read_file("/large").await.unwrap(), large);
    assert!(matches!(thread.write_file("/large", vec![7; (8 << 20) + 1]).await, Err(ThreadError::TooLarge { .. })));

    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let error = thread.add_message("user", nested(101)).await.unwrap_err();
    assert_eq!(error.to_string(), "content nests deeper than 100 levels");
    thread.add_message("user", nested(100)).await.unwrap();
    assert_eq!(thread.get_messages(MessageQuery::default()).await.unwrap()[0].content, nested(100));
}

// ---- Threads --------------------------------------------------------------------------------------

#[tokio::test]
async fn threads_are_isolated_from_each_other() {
    let store = ThreadStore::in_memory().await.unwrap();
    let (one, other) = (store.thread("one").unwrap(), store.thread("other").unwrap());
    one.write_file("/a", "1").await.unwrap();
    one.set_env("A", "1").await.unwrap();
    one.add_message("user", json!(1)).await.unwrap();
    one.emit("x", json!(1)).await.unwrap();
    assert!(other.read_file("/a").await.is_err());
    assert_eq!(other.get_env("A").await.unwrap(), None);
    assert_eq!(seqs(&other, MessageQuery::default()).await, [0_u64; 0]);
    assert_eq!(other.events(EventQuery::default()).await.unwrap(), []);
    assert_eq!(other.emit("x", json!(1)).await.unwrap().seq, 1, "numbers are per thread");
    assert!(store.delete_thread("one").await.unwrap() && !store.delete_thread("one").await.unwrap());
    assert!(one.read_file("/a").await.is_err());
    assert_eq!(one.env_names().await.unwrap(), [""; 0]);
    let left = store.threads(ThreadQuery::default().after("a".to_owned()).limit(5)).await.unwrap();
    assert_eq!(left.iter().map(|thread| &*thread.id).collect::<Vec<_>>(), ["other"]);
}

#[tokio::test]
async fn reads_and_deletions_do_not_create_a_thread() {
    let store = ThreadStore::in_memory().await.unwrap();
    let thread = store.thread("t").unwrap();
    assert!(!thread.delete_file("/a").await.unwrap());
    assert_eq!(thread.delete_messages(1).await.unwrap(), 0);
    assert_eq!(paths(&thread, FileQuery::default()).await, [""; 0]);
    assert_eq!(store.threads(ThreadQuery::default()).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writes_are_all_stored() {
    let thread = thread().await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let thread = thread.clone();
            tokio::spawn(async move {
                for number in 0..25 {
                    thread.add_message("user", json!([task, number])).await.unwrap();
                    thread.write_file(&format!("/{task}/{number}"), "x").await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let query = MessageQuery::default().limit(1_000);
    let messages = thread.get_messages(query).await.unwrap();
    assert_eq!(messages.iter().map(|message| message.seq).collect::<Vec<_>>(), (1..=200).collect::<Vec<_>>());
    for task in 0..8 {
        let own: Vec<Value> = messages.iter().filter(|m| m.content[0] == task).map(|m| m.content[1].clone()).collect();
        assert_eq!(own, (0..25).map(Value::from).collect::<Vec<_>>(), "in the order of each task");
    }
    assert_eq!(paths(&thread, FileQuery::default().limit(1_000)).await.len(), 200);
}
