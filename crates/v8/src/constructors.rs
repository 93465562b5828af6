//! The constructors that compile code in other places, and refuse it here: `Function` and its three relatives.

use v8::{
    Exception, Function, FunctionCallbackArguments, FunctionTemplate, Global, Local, PinScope, ReturnValue, Value,
};

use crate::text::{string, symbol, text_of};

/// The names of the constructors, in the order in which bootstrap.js replaces them.
const NAMES: [&str; 4] = ["Function", "AsyncFunction", "GeneratorFunction", "AsyncGeneratorFunction"];

/// The text of the only function that `Function` makes: libraries find the global object by it.
const RETURN_THIS: &str = "return this";

/// Makes the replacements. `return_this` is the function that `Function("return this")` returns.
pub(crate) fn new<'s>(scope: &mut PinScope<'s, '_>, return_this: Global<Function>) -> Option<[Local<'s, Value>; 4]> {
    let return_this = Local::new(scope, return_this);
    let mut made = [v8::undefined(scope).into(); 4];
    for (name, place) in NAMES.into_iter().zip(&mut made) {
        let template = FunctionTemplate::builder(refuse).length(1);
        let template = if name == "Function" { template.data(return_this.into()) } else { template };
        let function = template.build(scope).get_function(scope)?;
        let name = symbol(scope, name);
        function.set_name(name);
        *place = function.into();
    }
    Some(made)
}

#[allow(clippy::needless_pass_by_value)] // V8's signature
fn refuse<'s>(scope: &mut PinScope<'s, '_>, args: FunctionCallbackArguments<'s>, mut result: ReturnValue<'_, Value>) {
    let return_this = args.data();
    if return_this.is_function()
        && args.length() == 1
        && let Ok(text) = args.get(0).try_cast::<v8::String>()
        && text.length() == RETURN_THIS.len()
        && text_of(scope, text, RETURN_THIS.len()) == RETURN_THIS
    {
        result.set(return_this);
        return;
    }
    let Some(message) = string(scope, "code from strings cannot run in this sandbox") else { return };
    let error = Exception::type_error(scope, message);
    scope.throw_exception(error);
}
