//! The intrinsics of the realm that guest code cannot replace.

use v8::{Context, Function, Global, Local, Object, PinScope, Private, Value};

use crate::constructors;
use crate::snapshot::INTRINSICS;
use crate::text::{string, symbol};

/// Handles to intrinsics and private names of a realm. bootstrap.js made the functions.
pub(crate) struct Realm {
    /// The `console` of scripts.
    pub(crate) console: Global<Object>,
    pub(crate) object_prototype: Global<Object>,
    pub(crate) error: Global<Object>,
    /// `Intl`, which scripts are given on request.
    pub(crate) intl: Global<Object>,
    errors: Global<Object>,
    pub(crate) regexp_flags: Global<Function>,
    pub(crate) max_byte_length: Global<Function>,
    pub(crate) unboxed: Global<Function>,
    pub(crate) is_weak_ref: Global<Function>,
    pub(crate) is_out_of_bounds: Global<Function>,
    pub(crate) new_buffer: Global<Function>,
    pub(crate) new_resizable: Global<Function>,
    pub(crate) new_view: Global<Function>,
    /// A private property of the error that a failed call rejects with: `[code, message, cause]` from the host. Guest code cannot
    /// see, copy or forge it, so an error that has it comes from the host.
    pub(crate) failure: Global<Private>,
    /// A private property of errors from the host: their stack.
    pub(crate) stack: Global<Private>,
    /// A private property of functions of the host in values: their number and kind.
    pub(crate) bridged: Global<Private>,
}

impl Realm {
    /// Hardens the realm of a context that was made from the snapshot. `None` if the context was not.
    pub(crate) fn harden(scope: &mut PinScope<'_, '_, Context>, console: Local<'_, Object>) -> Option<Self> {
        let intrinsics: Local<'_, Object> = scope.get_context_data_from_snapshot_once(INTRINSICS).ok()?;
        let private = |scope: &mut PinScope<'_, '_>, name: &str| {
            let name = string(scope, name);
            let private = Private::new(scope, name);
            Global::new(scope, private)
        };
        let harden: Global<Function> = get(scope, intrinsics, "harden")?;
        let return_this: Global<Function> = get(scope, intrinsics, "returnThis")?;
        let constructors = constructors::new(scope, return_this)?;
        Local::new(scope, harden).call(scope, intrinsics.into(), &constructors)?;
        Some(Self {
            console: Global::new(scope, console),
            object_prototype: get(scope, intrinsics, "objectPrototype")?,
            error: get(scope, intrinsics, "error")?,
            intl: get(scope, intrinsics, "intl")?,
            errors: get(scope, intrinsics, "errors")?,
            regexp_flags: get(scope, intrinsics, "regExpFlags")?,
            max_byte_length: get(scope, intrinsics, "maxByteLength")?,
            unboxed: get(scope, intrinsics, "unboxed")?,
            is_weak_ref: get(scope, intrinsics, "isWeakRef")?,
            is_out_of_bounds: get(scope, intrinsics, "isOutOfBounds")?,
            new_buffer: get(scope, intrinsics, "newBuffer")?,
            new_resizable: get(scope, intrinsics, "newResizable")?,
            new_view: get(scope, intrinsics, "newView")?,
            failure: private(scope, "failure"),
            stack: private(scope, "stack"),
            bridged: private(scope, "bridged"),
        })
    }

    /// The prototype of an ECMAScript error class; `None` for other names.
    pub(crate) fn error_prototype<'s>(&self, scope: &mut PinScope<'s, '_>, name: &str) -> Option<Local<'s, Value>> {
        let name = string(scope, name)?;
        let errors = Local::new(scope, &self.errors);
        if !errors.has_own_property(scope, name.into())? {
            return None;
        }
        errors.get(scope, name.into())
    }
}

/// A member of an object that bootstrap.js made.
fn get<'s, T>(scope: &mut PinScope<'s, '_>, from: Local<'_, Object>, name: &'static str) -> Option<Global<T>>
where
    Local<'s, T>: TryFrom<Local<'s, Value>>,
{
    let name = symbol(scope, name);
    let value = from.get(scope, name.into())?;
    let value: Local<'s, T> = value.try_into().ok()?;
    Some(Global::new(scope, value))
}
