//! The TypeScript constructs that the parser records, with their offsets, and that are [lowered](crate::lower).

use crate::scopes::{NameId, ScopeId};

/// A name with its start and end.
pub(crate) type NameAt = (NameId, u32, u32);

/// What exports a declaration, with the offset of `export` (unspecified for inner names of `A.B`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exported {
    No,
    ByModule(u32),
    ByNamespace(u32, u32),
}

/// An enum.
#[derive(Debug)]
pub(crate) struct EnumItem {
    pub(crate) name: NameAt,
    /// The scope that declares it.
    pub(crate) scope: ScopeId,
    /// The scope of its members.
    pub(crate) body: ScopeId,
    pub(crate) exported: Exported,
    /// The offset of `enum` or `const enum`.
    pub(crate) start: u32,
    /// The offset after `{`.
    pub(crate) body_start: u32,
    /// The offset of `}`.
    pub(crate) body_end: u32,
    /// Whether it is declared with `var` instead of `let`.
    pub(crate) is_hoisted: bool,
    pub(crate) members: Vec<Member>,
}

/// A member of an enum.
#[derive(Debug)]
pub(crate) struct Member {
    /// The whole name, with brackets if it has them.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The start and end of the name or string, without brackets.
    pub(crate) key: (u32, u32),
    /// The constant of the initializer, if known, and the end of the initializer.
    pub(crate) value: Option<(Option<u32>, u32)>,
    /// The last member before this one that has an initializer.
    pub(crate) anchor: Option<usize>,
    pub(crate) comma: Option<u32>,
}

impl Member {
    pub(crate) fn new((start, end): (u32, u32), key: (u32, u32)) -> Self {
        Self { start, end, key, value: None, anchor: None, comma: None }
    }
}

/// A namespace; each name of `A.B` is one.
#[derive(Debug)]
pub(crate) struct NamespaceItem {
    pub(crate) name: NameAt,
    pub(crate) scope: ScopeId,
    pub(crate) body: ScopeId,
    pub(crate) exported: Exported,
    pub(crate) start: u32,
    pub(crate) body_start: u32,
    pub(crate) body_end: u32,
    pub(crate) is_hoisted: bool,
    /// The number of its declaration.
    pub(crate) declaration: usize,
    /// Whether it has no value at run time.
    pub(crate) is_type: bool,
    /// Whether it is not the first name of `A.B`.
    pub(crate) is_inner: bool,
}

/// `import a = b.c`
#[derive(Debug)]
pub(crate) struct AliasItem {
    pub(crate) name: NameAt,
    /// The offset of `import`.
    pub(crate) import: u32,
    pub(crate) exported: Exported,
    /// The end of the entity, before a semicolon.
    pub(crate) end: u32,
    pub(crate) statement: (u32, u32),
}

/// An expression that may be constant. Parts have lower numbers than the whole.
#[derive(Debug)]
pub(crate) enum Constant {
    Number,
    String,
    /// A template up to the end of `value`, behind the part `before`.
    Template {
        before: u32,
        value: Option<u32>,
    },
    /// `+`, `-` or `~`.
    Sign(u32),
    Binary {
        operator: Operator,
        left: Option<u32>,
        right: Option<u32>,
    },
    Name {
        name: NameId,
        at: u32,
    },
    Member {
        object: u32,
        name: NameId,
    },
}

/// An operator between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operator {
    precedence: u8,
    pub(crate) result: OperatorResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorResult {
    /// `+`
    Sum,
    Number,
    Unknown,
}

impl Operator {
    pub(crate) fn of(text: &str) -> Self {
        use OperatorResult::{Number, Sum, Unknown};
        let (precedence, result) = match text {
            "**" => (14, Number),
            "*" | "/" | "%" => (13, Number),
            "+" => (12, Sum),
            "-" => (12, Number),
            "<<" | ">>" | ">>>" => (11, Number),
            "<" | ">" | "<=" | ">=" | "in" | "instanceof" => (10, Unknown),
            "==" | "!=" | "===" | "!==" => (9, Unknown),
            "&" => (8, Number),
            "^" => (7, Number),
            "|" => (6, Number),
            "&&" => (5, Unknown),
            _ => (4, Unknown),
        };
        Self { precedence, result }
    }

    /// Whether this operator takes the operand between it and `next`.
    pub(crate) fn binds_before(self, next: Self) -> bool {
        self.precedence > next.precedence || (self.precedence == next.precedence && self.precedence != 14)
    }
}

/// The constructs of a source that are lowered.
#[derive(Debug, Default)]
pub(crate) struct Lowered {
    pub(crate) enums: Vec<EnumItem>,
    pub(crate) namespaces: Vec<NamespaceItem>,
    pub(crate) aliases: Vec<AliasItem>,
    pub(crate) constants: Vec<Constant>,
    /// Pending operators with their left operands, of all sums that are being read.
    waiting: Vec<(Option<u32>, Operator)>,
    /// The capacity of the lists of members.
    members: usize,
    /// Functions and classes that a namespace exports: its number, the declaration, and the end of the declaration.
    pub(crate) assigned: Vec<(u32, usize, u32)>,
    /// The offset of the default export of a script, if it has no name.
    pub(crate) default_export: Option<u32>,
    /// The name that a script exports as its default.
    pub(crate) default_value: Option<(u32, u32)>,
}

/// The number of recorded items, to rewind to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark([usize; 6]);

impl Lowered {
    /// The memory of the records.
    pub(crate) fn bytes(&self) -> usize {
        self.enums.capacity() * size_of::<EnumItem>()
            + self.members * size_of::<Member>()
            + self.namespaces.capacity() * size_of::<NamespaceItem>()
            + self.aliases.capacity() * size_of::<AliasItem>()
            + self.constants.capacity() * size_of::<Constant>()
            + self.waiting.capacity() * size_of::<(Option<u32>, Operator)>()
            + self.assigned.capacity() * size_of::<(u32, usize, u32)>()
    }

    pub(crate) fn mark(&self) -> Mark {
        let Self { enums, namespaces, aliases, constants, waiting, assigned, .. } = self;
        Mark([enums.len(), namespaces.len(), aliases.len(), constants.len(), waiting.len(), assigned.len()])
    }

    pub(crate) fn rewind(&mut self, Mark([enums, namespaces, aliases, constants, waiting, assigned]): Mark) {
        self.enums.truncate(enums);
        self.namespaces.truncate(namespaces);
        self.aliases.truncate(aliases);
        self.constants.truncate(constants);
        self.waiting.truncate(waiting);
        self.assigned.truncate(assigned);
    }

    pub(crate) fn add_member(&mut self, number: u32, member: Member) {
        let members = &mut self.enums[number as usize].members;
        let before = members.capacity();
        members.push(member);
        self.members += members.capacity() - before;
    }

    pub(crate) fn add_constant(&mut self, constant: Constant) -> u32 {
        self.constants.push(constant);
        self.constants.len() as u32 - 1
    }

    /// Begins operands with operators between them, which are reduced by precedence as they come.
    pub(crate) fn begin_sum(&self) -> Sum {
        Sum(self.waiting.len())
    }

    /// Adds an operator and the operand before it.
    pub(crate) fn add_operator(&mut self, sum: &Sum, mut operand: Option<u32>, operator: Operator) {
        while self.waiting.len() > sum.0
            && let Some((left, before)) = self.waiting.pop_if(|(_, before)| before.binds_before(operator))
        {
            operand = Some(self.add_constant(Constant::Binary { operator: before, left, right: operand }));
        }
        self.waiting.push((operand, operator));
    }

    /// Adds the last operand. Returns the constant of the whole expression.
    pub(crate) fn end_sum(&mut self, sum: &Sum, mut operand: Option<u32>) -> Option<u32> {
        while self.waiting.len() > sum.0
            && let Some((left, operator)) = self.waiting.pop()
        {
            operand = Some(self.add_constant(Constant::Binary { operator, left, right: operand }));
        }
        operand
    }
}

/// The number of pending operators outside of a sum.
pub(crate) struct Sum(usize);
