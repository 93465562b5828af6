/*
 * The numbers that cross the boundary between host and guest, except for the tags of values (encode.c). The host's
 * side is src/boundary.rs, where a test compares the two.
 */

/* What a program is, in the first message. */
enum { START_SCRIPT = 0, START_MODULES = 1 };

/* Flags of a script in the first message. */
enum { SCRIPT_WAITS_FOR_CALLS = 1, SCRIPT_COMMON_GLOBALS = 2, SCRIPT_TIMERS = 4 };

/* Libraries of the host. */
enum { LIBRARY_TEXT = 0, LIBRARY_CONSOLE = 1, LIBRARY_TIMERS = 2, LIBRARY_INTL = 3 };
#define LIBRARY_COUNT 4

/* Flags of a module in the first message. */
enum { MODULE_SYNTHETIC = 1, MODULE_IMPORTABLE = 2 };

/* The bit of a shift's source column that marks inserted text. */
#define SHIFT_INSERTED 0x80000000u

/* What a settlement settles: a promise of the host by its number, a call by its slot, or the timer. */
enum { SETTLES_PROMISE = 0, SETTLES_CALL = 1, SETTLES_TIMER = 2 };

/* How it is settled: with the code and message of a failed tool, with a value, or with a value that is thrown. */
enum { SETTLE_FAILED = 0, SETTLE_FULFILLED = 1, SETTLE_REJECTED = 2 };

/* How a program ends: with a value, a thrown value, the failure of a tool, or a link error. */
enum { END_VALUE = 0, END_THROWN = 1, END_FAILURE = 2, END_UNLINKED = 3 };

/* The most calls that are reported as unawaited: `MAX_UNAWAITED` of execbox-core. */
#define MAX_UNAWAITED 16

/* The level of a console line. */
enum { LEVEL_LOG = 0, LEVEL_INFO = 1, LEVEL_WARN = 2, LEVEL_ERROR = 3, LEVEL_DEBUG = 4 };

/* How calls of a host function are answered: `FunctionKind` of execbox-core. */
enum { CALL_ASYNC = 0, CALL_SYNC = 1, CALL_NOTIFY = 2, CALL_LOG = 3 };

/* Kinds of values that JSON cannot hold: `Foreign` of execbox-core. */
enum {
    FOREIGN_FUNCTION = 0, FOREIGN_SYMBOL = 1, FOREIGN_BIG_INT = 2, FOREIGN_DATE = 3, FOREIGN_MAP = 4, FOREIGN_SET = 5,
    FOREIGN_WEAK = 6, FOREIGN_REG_EXP = 7, FOREIGN_ERROR = 8, FOREIGN_PROMISE = 9, FOREIGN_ARRAY_BUFFER = 10,
    FOREIGN_TYPED_ARRAY = 11, FOREIGN_PROXY = 12, FOREIGN_BOXED_PRIMITIVE = 13, FOREIGN_SPARSE_ARRAY = 14,
    FOREIGN_OTHER = 15, FOREIGN_INSTANCE = 16,
};
