//! The runner's half of a session with a host that sends anything in any order: it does not panic.

#![no_main]

use std::task::Poll;
use std::time::Duration;

use arbitrary::Arbitrary;
use execbox_core::engine::{Event, LogLevel, LogLine, Outcome, Turn};
use execbox_core::protocol::decode_line;
use execbox_core::protocol::runner::{Output, RunnerSession};
use execbox_core::protocol::{Attachments, HostMessage, Message, RunnerMessage};
use execbox_core::value::Value;
use execbox_testkit::scripted::Moves;
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
enum Step {
    Line(String),
    Execute(u8),
    Cancel(u8),
    ToolResult(u8, u8),
    Log(String),
    Wait(u16),
    Timeout,
    Returned,
    Waiting,
    Computed(u16),
    Clock(u8, bool),
    Unread(u16),
    Close,
}

fuzz_target!(|steps: Vec<Step>| {
    let mut session = RunnerSession::new();
    let mut now = Duration::ZERO;
    for step in steps {
        match step {
            Step::Line(text) => receive(&mut session, text, now),
            Step::Execute(id) => {
                receive(
                    &mut session,
                    format!(r#"{{"type":"execute","id":"e{id}","code":"return 1","options":{{}},"providers":[]}}"#),
                    now,
                );
            }
            Step::Cancel(id) => receive(&mut session, format!(r#"{{"type":"cancel","id":"e{id}"}}"#), now),
            Step::ToolResult(call, kind) => {
                let result = if kind % 2 == 0 { r#""ok":true,"result":[1]"# } else { r#""ok":false"# };
                receive(&mut session, format!(r#"{{"type":"tool_result","callId":"call-{call}",{result}}}"#), now);
            }
            Step::Log(text) => session.handle_event(Event::Log(LogLine::new(LogLevel::Log, text)), &|| now),
            Step::Wait(ms) => now += Duration::from_millis(ms.into()),
            Step::Timeout => session.handle_timeout(now),
            Step::Returned => session.handle_turn(Poll::Ready(Turn::Done(Outcome::Returned(Value::undefined()))), now),
            Step::Waiting => session.handle_turn(Poll::Ready(Turn::Waiting), now),
            Step::Computed(ms) => {
                let began = now;
                now += Duration::from_millis(ms.into());
                session.handle_computed(began, now - began, now);
            }
            Step::Clock(id, stopped) => {
                receive(&mut session, format!(r#"{{"type":"clock","id":"e{id}","stopped":{stopped}}}"#), now);
            }
            Step::Unread(bytes) => session.handle_unread(bytes.into(), now),
            Step::Close => session.handle_close(),
        }
        while let Some(output) = session.poll_output() {
            if let Output::Compile { .. } = output {
                session.compile(&Moves, &|| now, &|| Duration::ZERO);
            }
        }
    }
});

fn receive(session: &mut RunnerSession, line: String, now: Duration) {
    let Ok(object) = decode_line(line.into_bytes()) else { return };
    let _ = RunnerMessage::from_object(object.clone(), Attachments::default());
    match HostMessage::from_object(object, Attachments::default()) {
        Ok(Some(message)) => session.handle_message(message, now),
        Ok(None) => {}
        Err(error) => session.handle_malformed(&error, now),
    }
}
