//! Which servers are moved: those that arguments name, or that the user chooses at a terminal.

use super::SetupError;
use super::place::{Found, Place, State};
use crate::output::terminal::safe_line;
use crate::prompt::{PromptError, Terminal};

/// The servers of each place that are moved, by the id of the place.
pub(super) type Selected = Vec<(String, Vec<String>)>;

/// All servers that can be moved, and the places with gateways.
pub(super) fn all(places: &[Place]) -> Selected {
    let selected = places.iter().filter(|place| !place.movable().is_empty() || place.gateway == State::Own);
    selected.map(|place| (place.id(), place.movable())).collect()
}

/// The servers that arguments name as `CLIENT` or `CLIENT.SERVER`.
pub(super) fn named(places: &[Place], arguments: &[String]) -> Result<Selected, SetupError> {
    let mut selected: Vec<Vec<String>> = vec![Vec::new(); places.len()];
    let mut is_named = vec![false; places.len()];
    for argument in arguments {
        let mut found = false;
        for (at, place) in places.iter().enumerate() {
            if place.client.id == argument || place.id() == *argument {
                (found, is_named[at]) = (true, true);
                selected[at].extend(place.movable());
            } else if let Some(server) = server_of(place, argument) {
                (found, is_named[at]) = (true, true);
                selected[at].push(checked(place, server)?);
            }
        }
        if !found {
            return Err(SetupError::unknown(argument, places));
        }
    }
    for names in &mut selected {
        names.sort_unstable();
        names.dedup();
    }
    let selected = places.iter().zip(selected).zip(is_named).filter(|(_, is_named)| *is_named);
    Ok(selected.map(|((place, names), _)| (place.id(), names)).collect())
}

/// The server of `CLIENT.SERVER`, if the place has it.
fn server_of<'a>(place: &'a Place, argument: &str) -> Option<&'a Found> {
    let of = |id: &str| argument.strip_prefix(id)?.strip_prefix('.');
    let name = of(&place.id()).or_else(|| of(place.client.id))?;
    place.servers.iter().chain(&place.behind).find(|found| found.name == name)
}

fn checked(place: &Place, found: &Found) -> Result<String, SetupError> {
    match &found.server {
        Err(reason) if !found.is_movable_by_name() => {
            let (client, server, reason) = (place.title(), found.name.clone(), reason.to_string());
            Err(SetupError::NotMovable { client, server, reason })
        }
        _ => Ok(found.name.clone()),
    }
}

/// Asks about the servers of each place.
pub(super) fn ask(places: &[Place], terminal: &mut Terminal) -> Result<Selected, PromptError> {
    let mut selected = Vec::new();
    for place in places {
        let names = place.movable();
        let (servers, answers, letters) = match &names[..] {
            [] => continue,
            [name] => (format!("the server {name:?}"), "y/n", "yn"),
            names => (format!("{} servers", names.len()), "y/n, s to select", "yns"),
        };
        let title = place.title();
        let question = format!("{}: put execbox in front of {servers}? {answers}: ", safe_line(&title));
        let chosen = match terminal.choose("", &question, letters)? {
            'y' => names,
            's' => ask_each(&names, terminal)?,
            _ => Vec::new(),
        };
        if !chosen.is_empty() {
            selected.push((place.id(), chosen));
        }
    }
    Ok(selected)
}

fn ask_each(names: &[String], terminal: &mut Terminal) -> Result<Vec<String>, PromptError> {
    let mut chosen = Vec::new();
    for name in names {
        if terminal.choose("", &format!("  {name:?}? y/n: "), "yn")? == 'y' {
            chosen.push(name.clone());
        }
    }
    Ok(chosen)
}
