//! Landlock: files, TCP and signals to others.

use ::landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use crate::policy::{Policy, Sockets};

/// What the crate knows of Landlock. Older kernels have less; what is missing is refused by other layers.
const KNOWN: ABI = ABI::V6;

/// Denies the calling thread, and those that it starts, every access to files, TCP, and signals to other processes, as far
/// as the kernel knows them; files at least. A process that listens can still read files and bind addresses until it is
/// sealed.
pub(super) fn enter(policy: &Policy) -> Result<(), String> {
    match rules(policy)?.restrict_self().map_err(|error| error.to_string())?.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("the kernel does not have it, or it is not enabled".to_owned()),
    }
}

fn rules(policy: &Policy) -> Result<RulesetCreated, String> {
    let is_listening = policy.sockets == Sockets::Listening;
    let (files, network) = match is_listening {
        true => (AccessFs::from_write(KNOWN), AccessNet::ConnectTcp.into()),
        false => (AccessFs::from_all(KNOWN), AccessNet::from_all(KNOWN)),
    };
    let created = create(files, network).map_err(|error| error.to_string())?;
    match &policy.socket_directory {
        Some(directory) if is_listening => {
            let directory = PathFd::new(directory).map_err(|error| error.to_string())?;
            let granted = AccessFs::MakeSock | AccessFs::RemoveFile;
            created.add_rule(PathBeneath::new(directory, granted)).map_err(|error| error.to_string())
        }
        _ => Ok(created),
    }
}

fn create(files: BitFlags<AccessFs>, network: BitFlags<AccessNet>) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(files)?
        .handle_access(network)?
        .scope(Scope::from_all(KNOWN))?
        .create()
}
