//! Landlock: files, TCP and signals to others.

use ::landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, LandlockStatus, RestrictionStatus, Ruleset,
    RulesetAttr as _, RulesetError, Scope,
};

/// The newest version of Landlock that is asked for. Older kernels have less; what is missing is refused by other layers.
const KNOWN: ABI = ABI::V6;

/// What versions of Landlock after the first have added, with the version.
const ADDED: [(i32, &str); 4] =
    [(3, "truncating files"), (4, "TCP"), (5, "controlling devices"), (6, "signals and abstract sockets")];

/// Denies the calling thread, and those that it starts, every access to files, TCP, and signals to other processes, as far as
/// the kernel supports that; files at least. Returns the version, and what it lacks.
pub(super) fn enter() -> Result<String, String> {
    match restrict().map_err(|error| error.to_string())?.landlock {
        LandlockStatus::Available { effective_abi, .. } => Ok(describe(effective_abi.min(KNOWN) as i32)),
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => {
            Err("the kernel does not have it, or it is not enabled".to_owned())
        }
    }
}

fn restrict() -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .restrict_self()
}

/// Whether the kernel has any version of Landlock. Restricts nothing.
pub(super) fn is_available() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create).is_ok()
}

fn describe(version: i32) -> String {
    let missing: Vec<&str> = ADDED.into_iter().filter(|(since, _)| *since > version).map(|(_, what)| what).collect();
    if missing.is_empty() {
        return format!("ABI {version}");
    }
    format!("ABI {version}, which does not restrict {}", missing.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_kernel_does_not_restrict_is_listed() {
        assert_eq!(describe(KNOWN as i32), "ABI 6");
        assert_eq!(describe(5), "ABI 5, which does not restrict signals and abstract sockets");
        assert_eq!(
            describe(3),
            "ABI 3, which does not restrict TCP, controlling devices, signals and abstract sockets"
        );
    }
}
