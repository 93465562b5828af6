//! Lowers TypeScript constructs to JavaScript: enums, namespaces and import aliases.
//!
//! The parser records them as [constructs](crate::constructs). When all names are known, [`lower`] writes edits with the
//! same result as the TypeScript compiler (5.9):
//!
//! ```text
//! enum E { A, B = A + 1, C = 'c' }     var E;(function (E) { E[E["A"] = 0] = "A"; E[E["B"] = E.A + 1] = "B"; E["C"] = 'c' })(E || (E = {}));
//! namespace N { export let x = 1; x }  var N;(function (N) { N.x = 1; N.x })(N || (N = {}));
//! ```
//!
//! Initializers are not folded. Only whether one is a constant number or string is computed, because string members have
//! no reverse mapping. Names of enums, namespaces and members are repeated where they are used, so all texts are charged
//! before they are written.

use std::collections::HashMap;

use crate::Parse;
use crate::constructs::{AliasItem, Constant, Exported, Lowered, Member, NamespaceItem, OperatorResult};
use crate::costs::Costs;
use crate::edits::Edits;
use crate::parser::{Options, Parser, Recorder};
use crate::scopes::{Binding, Found, NameId, Reference, ScopeId, Scopes, Use};
use crate::{Fault, ParseError};

/// The maximum number of declarations that become visible in other bodies of their enums and namespaces.
const MAX_MERGED: usize = 1_000_000;

/// How a source uses names from outside.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// For every imported name: used as a value, used as a type.
    pub(crate) imports: Vec<(bool, bool)>,
    /// Free names, in the order of their first use.
    pub(crate) free: Vec<NameId>,
}

/// Writes the edits of all constructs, and returns how names are used.
pub(crate) fn lower(parser: &mut Parser<'_, '_>) -> Parse<Uses> {
    let text = parser.text();
    let Parser { options, record, tokens, .. } = parser;
    let Recorder { scopes, lowered, items, edits, .. } = record;
    let costs = &mut tokens.costs;
    let merged = Merged::find(scopes, lowered, costs)?;
    let mut lowering = Lowering::new(text, *options, scopes, lowered, &merged, costs)?;
    let uses = lowering.resolve(items.names.len(), costs)?;
    lowering.write(&mut Output { edits, costs })?;
    Ok(uses)
}

/// Edits whose texts are charged before they are made.
struct Output<'e, 'b> {
    edits: &'e mut Edits,
    costs: &'e mut Costs<'b>,
}

impl Output<'_, '_> {
    /// The parts of a text, joined.
    fn text(&mut self, parts: &[&str]) -> Parse<String> {
        // Beside its text, an edit takes an entry, and another one while entries are sorted.
        const EDIT: usize = 96;
        self.costs.keep(EDIT + parts.iter().map(|part| part.len()).sum::<usize>())?;
        Ok(parts.concat())
    }

    fn replace(&mut self, start: u32, end: u32, parts: &[&str]) -> Parse<()> {
        let text = self.text(parts)?;
        self.edits.replace(start, end, text);
        Ok(())
    }

    fn insert(&mut self, at: u32, parts: &[&str]) -> Parse<()> {
        self.replace(at, at, parts)
    }
}

/// The bodies of enums and namespaces that are merged: those with the same scope and name. Empty if there are none.
#[derive(Default)]
struct Merged {
    /// The declarations of other bodies that are visible in a body.
    visible: HashMap<ScopeId, Vec<usize>>,
    /// The enums by scope and name.
    enums: HashMap<(ScopeId, NameId), Vec<usize>>,
    /// For every enum, its key in `enums`.
    enum_keys: HashMap<usize, (ScopeId, NameId)>,
    /// The first declaration of a name in a scope that exists at run time.
    first: HashMap<(ScopeId, NameId), usize>,
    /// The exports of a body of a namespace.
    exports: HashMap<(ScopeId, NameId), usize>,
}

impl Merged {
    fn find(scopes: &Scopes<'_>, lowered: &Lowered, costs: &mut Costs<'_>) -> Result<Self, ParseError> {
        let bodies = lowered.enums.len() + lowered.namespaces.len();
        if bodies == 0 {
            return Ok(Self::default());
        }
        costs.keep_items::<[usize; 32]>(bodies)?;
        costs.keep_items::<[usize; 10]>(scopes.declarations().len())?;
        let mut bodies: HashMap<(ScopeId, NameId), Vec<ScopeId>> = HashMap::new();
        let mut enums: HashMap<(ScopeId, NameId), Vec<usize>> = HashMap::new();
        let mut enum_keys = HashMap::new();
        // The inner names of `namespace A.B` are declared in a body of `A`: the same for all of them.
        let mut owners: HashMap<ScopeId, ScopeId> = HashMap::new();
        let mut key = |scope: ScopeId, name: NameId, body: ScopeId, owners: &mut HashMap<ScopeId, ScopeId>| {
            let owner = owners.get(&scope).copied().unwrap_or(scope);
            let of_name = bodies.entry((owner, name)).or_default();
            of_name.push(body);
            let first = of_name[0];
            owners.insert(body, first);
            (owner, name)
        };
        let mut items: Vec<(u32, ScopeId, NameId, ScopeId, Option<usize>)> = Vec::new();
        for (number, item) in lowered.enums.iter().enumerate() {
            items.push((item.name.1, item.scope, item.name.0, item.body, Some(number)));
        }
        for item in lowered.namespaces.iter().filter(|item| !item.is_type) {
            items.push((item.name.1, item.scope, item.name.0, item.body, None));
        }
        items.sort_by_key(|item| item.0);
        for (_, scope, name, body, number) in items {
            let key = key(scope, name, body, &mut owners);
            if let Some(number) = number {
                enums.entry(key).or_default().push(number);
                enum_keys.insert(number, key);
            }
        }
        let mut exports: HashMap<ScopeId, Vec<usize>> = HashMap::new();
        let (mut first, mut exports_by_name) = (HashMap::new(), HashMap::new());
        for (number, declaration) in scopes.declarations().iter().enumerate() {
            let key = (declaration.scope, declaration.name);
            if declaration.binding.is_value() {
                first.entry(key).or_insert(number);
            }
            if declaration.is_exported {
                exports_by_name.entry(key).or_insert(number);
            }
            if declaration.is_exported || matches!(declaration.binding, Binding::Member(..)) {
                exports.entry(declaration.scope).or_default().push(number);
            }
        }
        let mut visible: HashMap<ScopeId, Vec<usize>> = HashMap::new();
        let mut count = 0;
        for bodies in bodies.values().filter(|bodies| bodies.len() > 1) {
            let all: Vec<usize> = bodies.iter().filter_map(|body| exports.get(body)).flatten().copied().collect();
            let more = all.len() * bodies.len();
            count += more;
            if count > MAX_MERGED {
                return Err(ParseError::Fatal(Fault::new("too many merged declarations of enums or namespaces", 0)));
            }
            costs.keep_items::<usize>(more)?;
            for body in bodies {
                visible.insert(
                    *body,
                    all.iter().copied().filter(|number| scopes.declarations()[*number].scope != *body).collect(),
                );
            }
        }
        Ok(Self { visible, enums, enum_keys, first, exports: exports_by_name })
    }
}

/// The known part of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct StaticValue {
    value: Option<KnownValue>,
    /// Whether its syntax makes it a string, whatever its parts are.
    is_string: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownValue {
    Number,
    String,
}

/// What a name or a member of a name refers to, for constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConstantScope {
    Enum(ScopeId, NameId),
    Namespace(ScopeId),
}

struct Lowering<'p, 's> {
    text: &'s str,
    options: Options,
    scopes: &'p Scopes<'s>,
    lowered: &'p Lowered,
    /// The constants to evaluate: none if the source has no enums.
    constants: &'p [Constant],
    merged: &'p Merged,
    /// The parameter of the function that each body becomes.
    parameters: HashMap<ScopeId, String>,
    /// The declarations of the names in constants, by offset.
    constant_names: HashMap<u32, Option<Found>>,
    /// Names that are members of a body: the reference and the body.
    qualified: Vec<(Reference, ScopeId)>,
    alias_is_used: Vec<bool>,
    /// For every enum and name of a member, its number.
    member_numbers: HashMap<(usize, NameId), usize>,
    known: Vec<StaticValue>,
}

impl<'p, 's> Lowering<'p, 's> {
    fn new(
        text: &'s str,
        options: Options,
        scopes: &'p Scopes<'s>,
        lowered: &'p Lowered,
        merged: &'p Merged,
        costs: &mut Costs<'_>,
    ) -> Parse<Self> {
        // Constants decide how members of enums are written, and nothing else.
        let constants = if lowered.enums.is_empty() { &[] } else { &lowered.constants[..] };
        costs.keep_items::<[usize; 6]>(constants.len())?;
        costs.keep_items::<[usize; 16]>(lowered.enums.len() + lowered.namespaces.len())?;
        let names = constants.iter().filter_map(|constant| match constant {
            Constant::Name { at, .. } => Some((*at, None)),
            _ => None,
        });
        let mut lowering = Self {
            text,
            options,
            scopes,
            lowered,
            constants,
            merged,
            parameters: HashMap::new(),
            constant_names: names.collect(),
            qualified: Vec::new(),
            alias_is_used: vec![false; lowered.aliases.len()],
            member_numbers: HashMap::new(),
            known: Vec::new(),
        };
        lowering.name_parameters(costs)?;
        Ok(lowering)
    }

    /// The parameter of a body has the name of its enum or namespace, unless the body declares that name.
    fn name_parameters(&mut self, costs: &mut Costs<'_>) -> Parse<()> {
        let enums = self.lowered.enums.iter().map(|item| (item.name.0, item.scope, item.body));
        let items: Vec<_> =
            enums.chain(self.lowered.namespaces.iter().map(|item| (item.name.0, item.scope, item.body))).collect();
        if items.is_empty() {
            return Ok(());
        }
        costs.keep_items::<[usize; 4]>(self.scopes.declarations().len())?;
        // For every name the scope that declares it; `None` if several scopes do.
        let mut declared: HashMap<NameId, Option<ScopeId>> = HashMap::new();
        for declaration in self.scopes.declarations().iter().filter(|declaration| declaration.binding.is_value()) {
            let scope = declared.entry(declaration.name).or_insert(Some(declaration.scope));
            if *scope != Some(declaration.scope) {
                *scope = None;
            }
        }
        let mut last_number: HashMap<NameId, usize> = HashMap::new();
        for (name, scope, body) in items {
            let text = self.scopes.names.text(name);
            costs.keep(text.len())?;
            let mut parameter = text.to_owned();
            if declared.get(&name) != Some(&Some(scope)) {
                let number = last_number.entry(name).or_default();
                while self.scopes.names.find(&parameter).is_some() {
                    costs.steps(1 + text.len() / 8)?;
                    *number += 1;
                    parameter = format!("{text}_{number}");
                }
            }
            self.parameters.insert(body, parameter);
        }
        Ok(())
    }

    /// Resolves every name to its declaration.
    fn resolve(&mut self, imports: usize, costs: &mut Costs<'_>) -> Parse<Uses> {
        let mut uses = Uses { imports: vec![(false, false); imports], free: Vec::new() };
        let mut is_free = std::collections::HashSet::new();
        let (scopes, merged) = (self.scopes, self.merged);
        scopes.resolve(&merged.visible, costs, |reference, found, costs| {
            let is_value = matches!(reference.how, Use::Value | Use::Shorthand);
            if is_value && let Some(name) = self.constant_names.get_mut(&reference.start) {
                *name = found;
            }
            let Some(found) = found else {
                if is_value && is_free.insert(reference.name) {
                    costs.keep_items::<[NameId; 3]>(1)?;
                    uses.free.push(reference.name);
                }
                return Ok(());
            };
            let declaration = &scopes.declarations()[found.declaration];
            match declaration.binding {
                Binding::Import(number) => {
                    let (as_value, as_type) = &mut uses.imports[number as usize];
                    *(if is_value { as_value } else { as_type }) = true;
                }
                Binding::Alias(number) if is_value => {
                    let declared = self.lowered.aliases.get(number as usize).map(|alias| alias.name.1);
                    if declared != Some(reference.start) {
                        self.alias_is_used[number as usize] = true;
                    }
                }
                _ => {}
            }
            let is_elsewhere = found.scope != declaration.scope;
            let is_member = declaration.is_member || is_elsewhere || matches!(declaration.binding, Binding::Member(..));
            if is_value && is_member {
                costs.keep_items::<(Reference, ScopeId)>(1)?;
                self.qualified.push((*reference, found.scope));
            }
            Ok(())
        })?;
        Ok(uses)
    }

    // ---- static values

    /// Evaluates every constant, each after its parts.
    fn evaluate(&mut self, costs: &mut Costs<'_>) -> Parse<()> {
        let mut meanings: Vec<Option<ConstantScope>> = Vec::with_capacity(self.constants.len());
        for constant in self.constants {
            let (known, meaning) = self.evaluate_one(constant, &meanings, costs)?;
            self.known.push(known);
            meanings.push(meaning);
        }
        Ok(())
    }

    fn evaluate_one(
        &self,
        constant: &Constant,
        meanings: &[Option<ConstantScope>],
        costs: &mut Costs<'_>,
    ) -> Parse<(StaticValue, Option<ConstantScope>)> {
        let of = |part: &Option<u32>| part.map_or_else(StaticValue::default, |part| self.known[part as usize]);
        let number = StaticValue { value: Some(KnownValue::Number), is_string: false };
        let known = match constant {
            Constant::Number => number,
            Constant::String => StaticValue { value: Some(KnownValue::String), is_string: true },
            Constant::Template { before, value } => {
                let is_known = self.known[*before as usize].value.is_some() && of(value).value.is_some();
                StaticValue { value: is_known.then_some(KnownValue::String), is_string: true }
            }
            Constant::Sign(operand) => match self.known[*operand as usize].value {
                Some(KnownValue::Number) => number,
                _ => StaticValue::default(),
            },
            Constant::Binary { operator, left, right } => {
                let (left, right) = (of(left), of(right));
                let is_sum = operator.result == OperatorResult::Sum;
                let value = match (left.value, right.value) {
                    (Some(KnownValue::Number), Some(KnownValue::Number)) => {
                        (operator.result != OperatorResult::Unknown).then_some(KnownValue::Number)
                    }
                    (Some(_), Some(_)) if is_sum => Some(KnownValue::String),
                    _ => None,
                };
                StaticValue { value, is_string: is_sum && (left.is_string || right.is_string) }
            }
            Constant::Name { name, at } => {
                let Some(found) = self.constant_names.get(at).copied().flatten() else {
                    let is_number = matches!(self.scopes.names.text(*name), "Infinity" | "NaN");
                    return Ok((if is_number { number } else { StaticValue::default() }, None));
                };
                return Ok(self.declared(found.declaration));
            }
            Constant::Member { object, name } => match meanings[*object as usize] {
                Some(ConstantScope::Enum(scope, enum_name)) => {
                    let enums = self.merged.enums.get(&(scope, enum_name));
                    costs.steps(enums.map_or(0, Vec::len))?;
                    let found = enums.into_iter().flatten().find_map(|&number| self.member_of(number, *name));
                    found.map_or_else(StaticValue::default, |(number, member)| self.member_value(number, member))
                }
                Some(ConstantScope::Namespace(body)) => {
                    let number = self.merged.exports.get(&(body, *name));
                    return Ok(number.map_or((StaticValue::default(), None), |number| self.declared(*number)));
                }
                None => StaticValue::default(),
            },
        };
        Ok((known, None))
    }

    /// The known value of a declaration.
    fn declared(&self, number: usize) -> (StaticValue, Option<ConstantScope>) {
        match self.scopes.declarations()[number].binding {
            Binding::Constant(constant) => (self.known.get(constant as usize).copied().unwrap_or_default(), None),
            Binding::Member(number, member) => (self.member_value(number as usize, member as usize), None),
            Binding::Enum(number) => {
                let key = self.merged.enum_keys.get(&(number as usize));
                (StaticValue::default(), key.map(|(scope, name)| ConstantScope::Enum(*scope, *name)))
            }
            Binding::Namespace(number) => {
                (StaticValue::default(), Some(ConstantScope::Namespace(self.lowered.namespaces[number as usize].body)))
            }
            _ => (StaticValue::default(), None),
        }
    }

    /// The member `name` of the enum `number`.
    fn member_of(&self, number: usize, name: NameId) -> Option<(usize, usize)> {
        self.member_numbers.get(&(number, name)).map(|member| (number, *member))
    }

    fn member_value(&self, number: usize, member: usize) -> StaticValue {
        let members = &self.lowered.enums[number].members;
        let Some(member) = members.get(member) else { return StaticValue::default() };
        if let Some((constant, _)) = member.value {
            return constant.and_then(|constant| self.known.get(constant as usize)).copied().unwrap_or_default();
        }
        let value = match member.anchor {
            None => Some(KnownValue::Number),
            Some(anchor) => {
                let known = members[anchor].value.and_then(|(constant, _)| self.known.get(constant? as usize));
                known.and_then(|known| known.value).filter(|value| *value == KnownValue::Number)
            }
        };
        StaticValue { value, is_string: false }
    }

    /// The key of a member as a string literal, and its value.
    fn key_text(&self, member: &Member) -> (String, String) {
        let text = &self.text[member.key.0 as usize..member.key.1 as usize];
        if text.starts_with(['"', '\'']) {
            return (text.to_owned(), crate::strings::value(text));
        }
        if text.starts_with('`') {
            return (text.to_owned(), text.trim_matches('`').to_owned());
        }
        let name = crate::scopes::unescaped(text);
        (format!("\"{name}\""), name)
    }

    // ---- edits

    fn write(mut self, out: &mut Output<'_, '_>) -> Parse<()> {
        for (number, item) in self.lowered.enums.iter().enumerate() {
            out.costs.keep_items::<[usize; 4]>(item.members.len())?;
            for (at, member) in item.members.iter().enumerate() {
                if let Some(name) = self.scopes.names.find(&self.key_text(member).1) {
                    self.member_numbers.insert((number, name), at);
                }
            }
        }
        self.evaluate(out.costs)?;
        for (reference, body) in &self.qualified {
            let Some(parameter) = self.parameters.get(body) else { continue };
            match reference.how {
                Use::Shorthand => {
                    let name = &self.text[reference.start as usize..reference.end as usize];
                    out.insert(reference.end, &[": ", parameter, ".", name])?;
                }
                _ => out.insert(reference.start, &[parameter, "."])?,
            }
        }
        for number in 0..self.lowered.enums.len() {
            self.write_enum(number, out)?;
        }
        for item in self.lowered.namespaces.iter().filter(|item| !item.is_type && !item.is_inner) {
            self.write_namespace(item, out)?;
        }
        for (number, alias) in self.lowered.aliases.iter().enumerate() {
            self.write_alias(alias, self.alias_is_used[number], out)?;
        }
        for (namespace, declaration, end) in &self.lowered.assigned {
            let parameter = &self.parameters[&self.lowered.namespaces[*namespace as usize].body];
            let name = self.scopes.names.text(self.scopes.declarations()[*declaration].name);
            out.insert(*end, &[" ", parameter, ".", name, " = ", name, ";"])?;
        }
        Ok(())
    }

    /// Whether `binding` is the first declaration of its name in its scope.
    fn is_first(&self, scope: ScopeId, name: NameId, binding: Binding) -> bool {
        let first = self.merged.first.get(&(scope, name));
        first.is_none_or(|first| self.scopes.declarations()[*first].binding == binding)
    }

    /// The declaration of the variable, if it is the first of its name. Erases the `export` before the construct unless it
    /// remains.
    fn opening(
        &self,
        is_first: bool,
        is_hoisted: bool,
        exported: Exported,
        start: u32,
        name: &str,
        out: &mut Output<'_, '_>,
    ) -> Parse<String> {
        if let Exported::ByModule(export) | Exported::ByNamespace(_, export) = exported {
            let stays = is_first && !self.options.script && matches!(exported, Exported::ByModule(_));
            if !stays {
                out.edits.erase_item(export, start);
            }
        }
        match (is_first, is_hoisted) {
            (true, true) => out.text(&["var ", name, ";"]),
            (true, false) => out.text(&["let ", name, ";"]),
            (false, _) => Ok(String::new()),
        }
    }

    /// The argument of the function of a body.
    fn argument(&self, exported: Exported, name: &str, out: &mut Output<'_, '_>) -> Parse<String> {
        match exported {
            Exported::ByNamespace(namespace, _) => {
                let outer = &self.parameters[&self.lowered.namespaces[namespace as usize].body];
                out.text(&[name, " = ", outer, ".", name, " || (", outer, ".", name, " = {})"])
            }
            _ => out.text(&[name, " || (", name, " = {})"]),
        }
    }

    fn write_enum(&self, number: usize, out: &mut Output<'_, '_>) -> Parse<()> {
        let item = &self.lowered.enums[number];
        let name = self.scopes.names.text(item.name.0);
        let parameter = self.parameters[&item.body].as_str();
        let is_first = self.is_first(item.scope, item.name.0, Binding::Enum(number as u32));
        let opening = self.opening(is_first, item.is_hoisted, item.exported, item.start, name, out)?;
        out.replace(item.start, item.body_start, &[&opening, "(function (", parameter, ") {"])?;
        for at in 0..item.members.len() {
            self.write_member(number, at, parameter, out)?;
        }
        let argument = self.argument(item.exported, name, out)?;
        out.replace(item.body_end, item.body_end + 1, &["})(", &argument, ");"])
    }

    fn write_member(&self, number: usize, at: usize, parameter: &str, out: &mut Output<'_, '_>) -> Parse<()> {
        let members = &self.lowered.enums[number].members;
        let member = &members[at];
        let (key, _) = self.key_text(member);
        let key = key.as_str();
        let known = self.member_value(number, at);
        let is_string = known.value == Some(KnownValue::String) || known.is_string;
        match member.value {
            Some(_) if is_string => out.replace(member.start, member.end, &[parameter, "[", key, "]"])?,
            Some((_, end)) => {
                out.replace(member.start, member.end, &[parameter, "[", parameter, "[", key, "]"])?;
                out.insert(end, &["] = ", key])?;
            }
            None => {
                let value = match member.anchor {
                    None => at.to_string(),
                    Some(before) if known.value.is_some() => {
                        let base = &members[before];
                        out.costs.steps((base.key.1 - base.key.0) as usize / 8)?;
                        let (base, _) = self.key_text(base);
                        out.text(&[parameter, "[", &base, "] + ", &(at - before).to_string()])?
                    }
                    Some(_) => "void 0".to_owned(),
                };
                let parts = [parameter, "[", parameter, "[", key, "] = ", &value, "] = ", key];
                out.replace(member.start, member.end, &parts)?;
            }
        }
        if let Some(comma) = member.comma {
            out.replace(comma, comma + 1, &[";"])?;
        }
        Ok(())
    }

    /// A namespace with the inner ones of `A.B`, which have the same body.
    fn write_namespace(&self, first: &NamespaceItem, out: &mut Output<'_, '_>) -> Parse<()> {
        let number = self.lowered.namespaces.partition_point(|item| item.name.1 < first.name.1);
        let inner = self.lowered.namespaces[number + 1..].iter().take_while(|item| item.is_inner);
        let mut opening = String::new();
        let mut closing = Vec::new();
        for (item, at) in std::iter::once(first).chain(inner).zip(number as u32..) {
            let name = self.scopes.names.text(item.name.0);
            let parameter = self.parameters[&item.body].as_str();
            let is_first = self.is_first(item.scope, item.name.0, Binding::Namespace(at));
            if item.is_inner {
                opening += &out.text(&["let ", name, ";"])?;
            } else {
                opening += &self.opening(is_first, item.is_hoisted, item.exported, item.start, name, out)?;
            }
            opening += &out.text(&["(function (", parameter, ") {"])?;
            let argument = self.argument(item.exported, name, out)?;
            closing.push(out.text(&["})(", &argument, ");"])?);
        }
        closing.reverse();
        out.replace(first.start, first.body_start, &[&opening])?;
        out.replace(first.body_end, first.body_end + 1, &[&closing.concat()])
    }

    fn write_alias(&self, alias: &AliasItem, is_used: bool, out: &mut Output<'_, '_>) -> Parse<()> {
        let (start, end) = alias.statement;
        match alias.exported {
            Exported::No if !is_used => out.edits.erase_item(start, end),
            Exported::ByNamespace(..) => {
                out.edits.erase_item(start, alias.name.1);
                if end == alias.end {
                    out.insert(end, &[";"])?;
                }
            }
            exported => {
                if exported != Exported::No && self.options.script {
                    out.edits.erase(start, alias.import);
                }
                out.replace(alias.import, alias.import + 6, &["var"])?;
            }
        }
        Ok(())
    }
}
