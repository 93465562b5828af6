//! The host's half of a session with a runner that sends anything in any order: it does not panic, keeps no more than its
//! budget, and nothing stays charged when it is dropped.

#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use execbox_core::budget::Meter;
use execbox_core::contract::script::ScriptFunction;
use execbox_core::protocol::host::{CloseReason, HostContract, HostOptions, HostSession, Output};
use execbox_core::protocol::{Attachments, Execute, HostMessage, Message as _, ReadError, RunnerMessage};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
enum Step {
    Line(String),
    Started(bool),
    Call(u8, String),
    Log(String),
    Done(String),
    Failed(u8, String),
    Settle,
    Wait(u16),
    Close,
}

fuzz_target!(|steps: Vec<Step>| {
    let line = r#"{"type":"execute","id":"e","code":"1","options":{"memoryLimitBytes":65536},"providers":[{"name":"t","tools":{"f":{"safeName":"f","originalName":"f"}},"types":""}]}"#;
    let execute = HostMessage::from_line(line.into(), Attachments::default(), &mut Meter::alone(usize::MAX));
    let Ok(Some(HostMessage::Execute(execute))) = execute else { panic!("{execute:?}") };
    let function = ScriptFunction::new("n", "f", "1");
    let functions = if steps.len().is_multiple_of(3) { vec![function] } else { Vec::new() };
    let execute = Execute { functions, stream_logs: steps.len().is_multiple_of(2), ..execute };
    let mut session = HostSession::script(execute, HostOptions::default(), Duration::ZERO);
    let budget = session.budget().clone();
    let mut now = Duration::ZERO;
    let mut calls = Vec::new();
    for step in steps {
        match step {
            Step::Line(text) => receive(&mut session, text, now),
            Step::Started(functions) => {
                receive(&mut session, format!(r#"{{"type":"started","id":"e","functions":{functions}}}"#), now)
            }
            Step::Call(id, input) => {
                let call = format!(
                    r#"{{"type":"tool_call","callId":"c{id}","providerName":"t","safeToolName":"f","input":{input}}}"#
                );
                receive(&mut session, call, now);
            }
            Step::Log(text) => {
                receive(&mut session, format!(r#"{{"type":"log","id":"e","level":"log","text":{text:?}}}"#), now)
            }
            Step::Done(result) => {
                let done = format!(
                    r#"{{"type":"done","id":"e","ok":true,"durationMs":1,"logs":[{result}],"result":{result}}}"#
                );
                receive(&mut session, done, now);
            }
            Step::Failed(code, message) => {
                let codes = ["timeout", "memory_limit", "tool_error", "runtime_error", "root"];
                let code = codes[code as usize % codes.len()];
                let done = format!(
                    r#"{{"type":"done","id":"e","ok":false,"durationMs":1,"logs":[],"error":{{"code":"{code}","message":{message:?}}}}}"#
                );
                receive(&mut session, done, now);
            }
            Step::Settle => {
                if let Some(call) = calls.pop() {
                    session.settle(call, Ok(None), now);
                }
            }
            Step::Wait(ms) => {
                now += Duration::from_millis(ms.into());
                session.handle_timeout(now);
            }
            Step::Close => session.handle_close(CloseReason::Closed, now),
        }
        while let Some(output) = session.poll_output() {
            if let Output::Call(call) = output {
                calls.push(call.id);
            }
        }
        assert!(budget.used() <= budget.limit());
    }
    drop(session);
    assert_eq!(budget.used(), 0);
});

fn receive<C: HostContract>(session: &mut HostSession<C>, line: String, now: Duration) {
    let budget = session.budget().clone();
    let mut meter = Meter::new(&budget, usize::MAX, &|| false);
    match RunnerMessage::from_line(line.into_bytes(), Attachments::default(), &mut meter) {
        Ok(Some(message)) => session.handle_message(message, now),
        Ok(None) => {}
        Err(ReadError::Message(error)) => session.handle_misbehavior(error, now),
        Err(ReadError::Line(error)) => session.handle_misbehavior(error, now),
    }
}
