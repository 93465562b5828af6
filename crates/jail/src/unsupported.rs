//! Systems without an implementation: everything is reported as unavailable.

use crate::policy::Policy;
use crate::report::{Feature, Layer, Report, Status};

pub(crate) fn prepare(_: &Policy, report: &mut Report) {
    for layer in Layer::ALL {
        report.note(layer, Status::Unavailable("not supported on this operating system".to_owned()));
    }
}

pub(crate) fn confine(_: &mut Report) {}

pub(crate) fn seal(_: &Policy, _: &mut Report) {}

pub(crate) fn features() -> Vec<Feature> {
    vec![Feature { name: "system".to_owned(), value: std::env::consts::OS.to_owned() }]
}

pub(crate) fn may_lack_layers() -> bool {
    true
}
