//! Every bound of the daemon in one place, its unit in its name.
//!
//! A bound that a user may change is a default here and a key of `config.toml`; the rest are fixed. The
//! reason for a figure stands beside it.

/// Model steps in one turn (`limits.max_steps`).
pub const MAX_STEPS: u32 = 200;
/// Tool calls taken from one assistant message; the rest get their result and never run.
pub const MAX_CALLS_PER_MESSAGE: u32 = 32;
/// Wall time of one turn, waiting for people not counted (`limits.max_minutes`).
pub const MAX_TURN_MINUTES: u32 = 120;
/// Money one turn may cost, in millionths of a US dollar (`limits.max_cost_usd`).
pub const MAX_COST_MICRO_USD: i64 = 10_000_000;
/// Read-only calls of one session that run side by side (`limits.parallel_read_only`).
pub const PARALLEL_READ_ONLY: u32 = 8;
/// Deadline of a command that names none (`limits.command_timeout_s`).
pub const COMMAND_TIMEOUT_S: u32 = 120;
/// The longest deadline a command may ask for.
pub const COMMAND_TIMEOUT_S_MAX: u32 = 3_600;
/// How long a stopped command has between TERM and KILL.
pub const COMMAND_GRACE_MS: u64 = 1_000;
/// How long output that is still on its way is waited for, once a command has ended and left processes behind.
pub const DRAIN_MS: u64 = 200;
/// What a command leaves running has so long between TERM and KILL.
pub const LEFTOVER_GRACE_MS: u64 = 200;
/// How long killed processes may take to be gone (one may be stuck in the kernel).
pub const KILL_WAIT_MS: u64 = 2_000;
/// What a supervisor may take beyond a command's deadline and its grace before the daemon steps in: more than
/// all its own waits together. A command can stop its supervisor, and nothing else would end it then.
pub const SUPERVISOR_SLACK_MS: u64 = 10_000;
/// How long a late supervisor has between the daemon's wish to stop and its death.
pub const SUPERVISOR_KILL_AFTER_MS: u64 = 5_000;
/// How long the last word of a supervisor that has ended is waited for; it is in the pipe already.
pub const SUPERVISOR_WORD_MS: u64 = 1_000;
/// Bytes read from a command at once, and the size asked for its pipe: few switches under a flood.
pub const PIPE_READ_BYTES: usize = 256 * 1024;
/// Bytes of output up to which a supervisor looks for each next piece at once, to see stdout and stderr in their order.
pub const ORDERED_BYTES: usize = 64 * 1024;
/// How often it looks before it waits again: some 50 microseconds, longer than a program takes from line to line.
pub const ORDERED_LOOKS: u32 = 100;
/// Bytes of one stream that wait for the other to end its line.
pub const STREAM_WAITING_BYTES: usize = 64 * 1024;
/// How long they wait for that.
pub const STREAM_WAITING_MS: u64 = 5;
/// Bytes kept of the end of stderr, beside the output: it says why a command failed, whatever stdout prints after it.
pub const STDERR_END_BYTES: usize = 2 * 1024;
/// Bytes of running output handed on at once.
pub const OUTPUT_CHUNK_BYTES: usize = 8 * 1024;
/// The rest after each whole piece of running output: a flood is shown in samples.
pub const OUTPUT_REST_MS: u64 = 20;
/// How far the shown output may be behind before the middle is left out.
pub const OUTPUT_BEHIND_BYTES: u64 = 256 * 1024;
/// Attempts at one model call (`retry.max_attempts`).
pub const RETRY_MAX_ATTEMPTS: u32 = 8;
/// First wait before a new attempt (`retry.base_ms`); doubled each time.
pub const RETRY_BASE_MS: u64 = 500;
/// Longest wait of our own choice before a new attempt (`retry.max_ms`).
pub const RETRY_MAX_MS: u64 = 30_000;
/// Longest wait a provider may ask for before we give up instead.
pub const RETRY_AFTER_MAX_MS: u64 = 300_000;
/// Continuations after `pause_turn` in a row.
pub const PAUSE_TURN_MAX: u32 = 5;
/// Nudges after an empty answer.
pub const EMPTY_NUDGES_MAX: u32 = 1;
/// Retries of an answer cut by its output limit, each with a larger one where the model has one.
pub const TRUNCATED_RETRIES_MAX: u32 = 2;
/// Failures in a row of one tool and class before advice is added.
pub const BREAKER_ADVICE_AT: u32 = 3;
/// Failures in a row of one tool and class that end the turn with `loop`.
pub const BREAKER_STOP_AT: u32 = 6;
/// Resumes of one turn without a finished step between them before it ends `failed`.
pub const RESUMES_WITHOUT_PROGRESS_MAX: u32 = 3;
/// Life of an open approval (`session.approvals_expire_h`).
pub const APPROVALS_EXPIRE_H: u32 = 24;
/// Inputs that wait in one session.
pub const QUEUED_INPUTS_MAX: usize = 64;
/// Bytes of the text of a waiting input that a session's view shows: with all that may wait the view stays a message
/// that every client reads. The events have the whole.
pub const WAITING_TEXT_MAX_BYTES: usize = 32 * 1024;
/// Bytes of text in one input; more belongs into an artifact.
pub const INPUT_MAX_BYTES: usize = 1024 * 1024;
/// Characters of a session's name, which stands in lists beside other columns.
pub const SESSION_NAME_MAX_CHARS: usize = 100;
/// An event body beyond this goes to a blob.
pub const EVENT_INLINE_MAX_BYTES: usize = 32 * 1024;
/// A row of the event table is never larger.
pub const EVENT_ROW_MAX_BYTES: usize = 64 * 1024;
/// Plain bytes in one blob chunk, which makes a range read independent of the blob's size.
pub const BLOB_CHUNK_BYTES: usize = 256 * 1024;
/// Lines kept of the start of command and search output (`context.result_head_lines`).
pub const RESULT_HEAD_LINES: usize = 100;
/// Lines kept of the end (`context.result_tail_lines`).
pub const RESULT_TAIL_LINES: usize = 50;
/// Bytes of one tool result in the prompt (`context.result_max_bytes`); less in small windows.
pub const RESULT_MAX_BYTES: usize = 32 * 1024;
/// Share of the usable window for all tool results (`context.tool_results`), in thousandths.
pub const RESULTS_SHARE_MILLI: u32 = 400;
/// Share of the usable window for one tool result, in thousandths: a few of them side by side must leave room to think.
pub const RESULT_SHARE_MILLI: u64 = 100;
/// Bytes of a tool result beside many others in the smallest window: room for a line or two and the id of the artifact.
pub const RESULT_MIN_BYTES: usize = 256;
/// Lines of a tool result in the smallest window, at each end.
pub const RESULT_MIN_LINES: usize = 2;
/// Further tries of a call whose failure passes by itself.
pub const TOOL_RETRIES_MAX: u32 = 3;
/// The wait before the first of them; each further one waits four times as long.
pub const TOOL_RETRY_BASE_MS: u64 = 50;
/// How long a lease on a workspace outlives its call while the result is not recorded: a session that cannot record
/// holds others up no longer.
pub const LEASE_RECORD_MS: u64 = 2_000;
/// Lines of one `read_file` page when none are asked for.
pub const READ_LINES_DEFAULT: usize = 200;
/// Lines of one `read_file` page at most.
pub const READ_LINES_MAX: usize = 2_000;
/// Bytes of command output kept on disk: the first half and the last half of it.
pub const SPOOL_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of one file that `edit_file` and `write_file` handle.
pub const EDIT_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of one server-sent event line, against a server that never ends one. A whole answer may come in one line,
/// with things around it.
pub const SSE_LINE_MAX_BYTES: usize = 2 * RESPONSE_MAX_BYTES;
/// Bytes of the content of one assistant message, as the provider wrote it. An event holds it about twice (as it was
/// sent, and what was read from it), and a client reads this beside the typed body: three times this have to fit the
/// 32 MiB that clients read.
pub const RESPONSE_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of the stream of one answer: each delta of a few characters has a hundred bytes around it.
pub const RESPONSE_STREAM_MAX_BYTES: usize = 128 * 1024 * 1024;
/// Bytes of a request body; Anthropic's own limit.
pub const REQUEST_BODY_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Tool calls in one answer, run or not: each costs memory of its own, however short it is.
pub const ANSWER_CALLS_MAX: usize = 1_024;
/// Other pieces of one answer that are kept apart (parts of content, details of reasoning), for the same reason.
pub const ANSWER_PIECES_MAX: usize = 4_096;
/// Fields of one object that is put together from pieces (a call, a detail of reasoning, usage): each new piece looks
/// through all of them.
pub const ANSWER_FIELDS_MAX: usize = 64;
/// Bytes of one usage report.
pub const USAGE_MAX_BYTES: usize = 16 * 1024;
/// Bytes of the id of a tool call; known ones have less than a hundred.
pub const CALL_ID_MAX_BYTES: usize = 512;
/// Lines about what was odd in one answer.
pub const ANSWER_WARNINGS_MAX: usize = 8;
/// Wait for the first byte of an answer (`providers.NAME.first_byte_timeout_s`).
pub const FIRST_BYTE_TIMEOUT_S: u32 = 120;
/// Silence within an answer (`providers.NAME.idle_timeout_s`); pings count as life.
pub const IDLE_TIMEOUT_S: u32 = 120;
/// Wait for a connection to a provider, a part of the first-byte deadline: a host that is not there says so early.
pub const MODEL_CONNECT_TIMEOUT_S: u64 = 15;
/// How long an unused connection to a provider is kept; servers close theirs after one to two minutes.
pub const MODEL_POOL_IDLE_S: u64 = 60;
/// Bytes read of a provider's error; more is not for people.
pub const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;
/// Wait for the body of an error; its status has come already.
pub const ERROR_BODY_TIMEOUT_MS: u64 = 5_000;
/// A count of tokens in one answer; more is no count. Sums of very many of them still fit everywhere.
pub const TOKEN_COUNT_MAX: u64 = 1 << 53;
/// The least that an error's bound of an answer is believed for: with less no call can be made.
pub const LEARNED_OUTPUT_MIN: u32 = 256;
/// Wait for the end of a stream whose answer is complete, so that its connection can be used again.
pub const STREAM_TAIL_MS: u64 = 1_000;
/// Events in one page of a read.
pub const EVENTS_PAGE_MAX: usize = 256;
/// Bytes of the events in one page; a page has at least one event, however large.
pub const EVENTS_PAGE_MAX_BYTES: usize = 4 * 1024 * 1024;
/// A gRPC message as received.
pub const GRPC_DECODE_MAX_BYTES: usize = 16 * 1024 * 1024;
/// A stream frame we send; larger content is an artifact.
pub const FRAME_TARGET_BYTES: usize = 256 * 1024;
/// Streams of one connection.
pub const STREAMS_PER_CONNECTION: u32 = 64;
/// Unary calls of one connection in flight.
pub const UNARY_PER_CONNECTION: usize = 32;
/// Inputs waiting in the mailbox of one session's actor.
pub const MAILBOX_LEN: usize = 256;
/// Requests waiting for the writer thread.
pub const WRITER_QUEUE_LEN: usize = 1_024;
/// Token deltas kept for one slow client; beyond it the client is told that it lagged.
pub const DELTA_BUFFER_LEN: usize = 512;
/// How long a repeated request id is answered with its first answer.
pub const REQUEST_ID_KEEP_MS: i64 = 7 * 24 * 3_600 * 1_000;
/// How long a client waits for a daemon it spawned to report that it is ready.
pub const READY_TIMEOUT_MS: u64 = 10_000;
/// How long an idle actor stays in memory.
pub const ACTOR_IDLE_MS: u64 = 2_000;
/// Bytes of one log file before it is rotated, and how many are kept.
pub const LOG_FILES_KEPT: usize = 5;
/// Lines around each change in a preview diff: what `diff -u` shows.
pub const DIFF_CONTEXT_LINES: usize = 3;
/// Bytes of a preview diff; a larger one is cut and says so. Fits a stream frame with room to spare.
pub const DIFF_MAX_BYTES: usize = 128 * 1024;
/// Bytes of one line in a preview diff, against minified files.
pub const DIFF_LINE_MAX_BYTES: usize = 2_000;
/// Edit distance up to which a minimal diff is sought; beyond it the middle is shown as replaced. Bounds the
/// quadratic part to about four million steps.
pub const DIFF_DISTANCE_MAX: usize = 1_000;
/// Places named when an edit matches nothing or several times.
pub const EDIT_PLACES_MAX: usize = 5;
/// Lines compared when the nearest lines to a missing text are sought, which bounds the time of a failed edit.
pub const EDIT_NEAREST_LINES_MAX: usize = 50_000;
/// Entries named beside a missing file.
pub const NEIGHBOURS_MAX: usize = 20;
/// Entries of one `list_dir` result.
pub const LIST_ENTRIES_MAX: usize = 500;
/// Entries read of one folder before a look for neighbours, or for other names of a file, gives up on being complete.
pub const FOLDER_READ_MAX: usize = 100_000;
/// Threads of one walk over a tree: beyond a few the kernel's locks on folders eat what more would gain.
pub const WALK_THREADS_MAX: usize = 4;
/// How long one walk may take; then its result is what was found and says that it is partial.
pub const WALK_TIME_MAX_MS: u64 = 20_000;
/// Folders within folders that a walk enters; each holds a descriptor open.
pub const WALK_DEPTH_MAX: usize = 128;
/// Files of one folder that one thread of a walk takes at once.
pub const WALK_BATCH_FILES: usize = 64;
/// Bytes of one ignore file; a larger one is not one.
pub const IGNORE_FILE_MAX_BYTES: usize = 1024 * 1024;
/// Bytes of one file that are searched in one piece; larger ones are searched as a stream.
pub const SEARCH_WHOLE_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of one line of a file searched as a stream; a file with a longer one is not text.
pub const SEARCH_LINE_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of one line in a result of `search`: enough to see what it is; read_file has the rest.
pub const SEARCH_LINE_SHOWN_BYTES: usize = 400;
/// Bytes of the matches kept of one file; further ones are counted.
pub const SEARCH_FILE_KEPT_BYTES: usize = 1024 * 1024;
/// Bytes of all the matches or names kept of one walk, the first ones by path; further ones are counted.
pub const SEARCH_KEPT_BYTES: usize = 4 * 1024 * 1024;
/// Bytes looked at to tell a binary file from text in a search.
pub const SEARCH_SNIFF_BYTES: usize = 64 * 1024;
/// Bytes of a compiled pattern, against patterns that repeat repetitions.
pub const SEARCH_REGEX_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Bytes looked at to tell text from binary and to find the encoding.
pub const SNIFF_BYTES: usize = 8 * 1024;
/// Bytes that are not ASCII, with their neighbours, by which an old encoding is told: more adds nothing but time.
pub const DETECT_SAMPLE_BYTES: usize = 64 * 1024;
/// So many bytes that are not ASCII are needed to be sure of an old encoding, where they stand alone among ASCII as in
/// Latin scripts. Tried on sentences in fourteen encodings: none was taken for another with these many.
pub const DETECT_SURE_BYTES: usize = 12;
/// The same where they stand side by side, as in other scripts: with 35 a few Russian words were still taken for
/// Hebrew.
pub const DETECT_SURE_DENSE_BYTES: usize = 40;
/// Bytes of a file that file tools do not change by which its encoding is told; smaller files are looked at whole.
pub const DETECT_HEAD_BYTES: u64 = 1024 * 1024;
/// Bytes of an image or a document that becomes an artifact: what providers take at most (PDF 32 MB).
pub const MEDIA_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of a file read at once when lines are counted: few calls, and still in the processor's cache.
pub const READ_CHUNK_BYTES: usize = 256 * 1024;
/// How long the lines after a page are counted at most; beyond it the rest is told as "more than".
pub const READ_COUNT_AHEAD_MS: u64 = 40;
/// How long lines are counted on the way to the first one of a page. What was passed by then is remembered, so that
/// the same call goes on from there.
pub const READ_SKIP_MS: u64 = 8_000;
/// Bytes of a page that its last lines (what follows, what is unusual) may take.
pub const READ_WORDS_BYTES: usize = 512;
/// Files whose places of lines are remembered between pages.
pub const LINE_PLACES_FILES_MAX: usize = 32;
/// Places remembered of one file: with one for each 8 MiB passed over, those of the last gigabyte.
pub const LINE_PLACES_MAX: usize = 128;
/// Bytes passed over between two remembered places.
pub const LINE_PLACES_EVERY_BYTES: u64 = 8 * 1024 * 1024;
/// A file changed less than this ago is not remembered: another change may carry the same time.
pub const LINE_PLACES_SETTLE_MS: i64 = 2_000;
/// Bytes after a page that are still counted in lines; beyond it the rest is told in bytes.
pub const READ_COUNT_AHEAD_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of one line that are stored as an artifact when the line does not fit a page.
pub const LINE_ARTIFACT_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of one `read_artifact` answer when none are asked for, and at most.
pub const ARTIFACT_READ_DEFAULT_BYTES: usize = 16 * 1024;
/// Tries of a path lookup that the kernel gave up because something was renamed meanwhile.
pub const LOOKUP_RETRIES_MAX: u32 = 16;
/// Links followed in one path, as the kernel has it.
pub const LINKS_MAX: u32 = 40;
/// Bytes of a secret below which it is not searched for: shorter ones are found everywhere.
pub const SECRET_MIN_BYTES: usize = 8;
/// Exchanges of two names in a row while somebody else keeps replacing the file; each lost one needs a rename of
/// theirs within microseconds.
pub const EXCHANGES_MAX: u32 = 64;
/// Read-only connections: reads of several sessions side by side on a small machine.
pub const STORE_READERS: usize = 4;
/// Prepared statements kept per connection: more than the store has, so none is parsed twice.
pub const STORE_STATEMENTS_CACHED: usize = 96;
/// Wait for a database that another process (a backup, an `sqlite3` shell) holds.
pub const STORE_BUSY_TIMEOUT_MS: u64 = 30_000;
/// Quiet time after which a writer tidies up: its log is copied back and old rows go.
pub const STORE_IDLE_MS: u64 = 1_000;
/// A write-ahead log beyond this is copied back without waiting for a quiet time.
pub const WAL_CHECKPOINT_BYTES: u64 = 16 * 1024 * 1024;
/// What is kept of the file of a write-ahead log that was copied back.
pub const WAL_KEEP_BYTES: u64 = 4 * 1024 * 1024;
/// Sessions whose place in the log the writer remembers.
pub const SESSION_PLACES_MAX: usize = 4_096;
/// Candidates that an ambiguous session name or prefix shows.
pub const FIND_SESSIONS_MAX: usize = 20;
/// Blobs waiting for the blob writer.
pub const BLOB_QUEUE_LEN: usize = 64;
/// Chunks written in one transaction: small blobs never wait for more of a large one than this (2 MiB).
pub const BLOB_SLICE_CHUNKS: usize = 8;
/// Chunks deleted in one transaction.
pub const BLOB_DELETE_CHUNKS: i64 = 200;
/// Pages given back to the file system in one transaction (1 MiB).
pub const VACUUM_STEP_PAGES: usize = 256;
/// How long content that no event names is kept: somebody may be about to name it.
pub const BLOB_ORPHAN_KEEP_MS: i64 = 24 * 3_600 * 1_000;
/// Unnamed blobs looked at when the store opens, so that opening stays quick.
pub const BLOB_ORPHANS_PER_OPEN: usize = 1_000;
/// Audit rows read in one transaction.
pub const AUDIT_PAGE_ROWS: usize = 1_000;
/// Old request ids forgotten in one transaction.
pub const REQUEST_IDS_PRUNED_PER_STEP: usize = 256;
/// The smallest window a configuration may give a model: system text, some tools and one answer have to fit. All tools need
/// about as much; a model with so little gets on with those that `[tools] disable` leaves.
pub const CONTEXT_WINDOW_MIN: u64 = 2_048;
/// A rate that is whole again within this is waited for as long as a turn waits at all: a part of it is there earlier. One
/// that takes longer is the budget of a day.
pub const RATE_RESET_SOON_MS: u64 = 3_600_000;
/// The smallest window that an error is believed to name: local servers run with little, but never with less.
pub const LEARNED_WINDOW_MIN: u64 = 512;
/// The window of a model that nobody knows: what servers of recent years have at least.
pub const UNKNOWN_CONTEXT_WINDOW: u64 = 32_768;
/// Tokens of one answer of a model that nobody knows.
pub const UNKNOWN_MAX_OUTPUT_TOKENS: u32 = 4_096;
/// Idle sessions are kept so long (`retention.sessions_days`).
pub const RETENTION_SESSIONS_DAYS: u32 = 30;
/// Artifacts are kept so long (`retention.artifacts_days`).
pub const RETENTION_ARTIFACTS_DAYS: u32 = 14;
/// How long a changed configuration rests before it is read: editors write in several steps.
pub const CONFIG_SETTLE_MS: u64 = 60;
/// How often the daemon looks whether its home, lock and socket are still there.
pub const HOME_CHECK_MS: u64 = 2_000;
/// How long a daemon that was told to end by a signal waits for running steps before it ends anyway.
pub const SIGNAL_DRAIN_MS: u64 = 5_000;
/// How long open streams may take to hear that the daemon ends.
pub const FAREWELL_MS: u64 = 500;
/// How often a daemon that waits for the lock tries again; the other one is starting or ending.
pub const LOCK_RETRY_MS: u64 = 10;
/// How long accepting rests after the system ran out of descriptors, so that it does not spin.
pub const ACCEPT_REST_MS: u64 = 100;
/// Worker threads of the daemon's runtime: sessions wait much more than they compute.
pub const WORKER_THREADS: usize = 2;
/// Threads for calls that block (files, SQLite reads).
pub const BLOCKING_THREADS_MAX: usize = 16;
/// Stack of each of them; untouched pages cost nothing.
pub const THREAD_STACK_BYTES: usize = 1024 * 1024;
/// How long a starting daemon waits for one that holds the lock and does not answer yet, or not any more. Less
/// than its client waits, so that the client hears why.
pub const LOCK_WAIT_MS: u64 = 8_000;
/// Bytes of a server's list of models; the longest known (OpenRouter) has about 1 MB.
pub const LISTING_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Models taken from such a list; the longest known has about 500.
pub const LISTED_MODELS_MAX: usize = 2_000;
/// A larger context window in a list is a mistake of its server.
pub const LISTED_WINDOW_MAX: u64 = 20_000_000;
/// The whole of a look at such a list, connecting included: somebody waits for the session to begin.
pub const LISTING_TIMEOUT_MS: u64 = 2_000;
/// The same where a person asked for the list and waits for nothing else.
pub const PROBE_TIMEOUT_MS: u64 = 10_000;
/// A server that could not be asked is not asked again for so long.
pub const LISTING_RETRY_MS: u64 = 60_000;
/// Models whose figures are remembered; beyond it the memory is emptied and fills again.
pub const LISTING_REMEMBERED_MAX: usize = 1_024;
/// Bytes of recorded requests and answers of one session; then recording stops and says so.
pub const RECORD_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Subjects of one policy check, and so lines of a batch that travel together.
pub const CHECK_SUBJECTS_MAX: usize = 1_000;
/// Entries looked at below a folder that is to be removed, for protected names; beyond it a person is asked.
pub const FOLDER_DELETE_LOOK_MAX: usize = 20_000;
/// Folders held open while one is looked through: far below the descriptors of a process.
pub const FOLDER_DELETE_OPEN_MAX: usize = 200;
/// Bytes of a line of stored content up to which it is searched as a whole; a longer one is searched in pieces.
pub const ARTIFACT_SEARCH_LINE_MAX_BYTES: usize = 1024 * 1024;
/// Bytes that two pieces of a line share, so that matches across their edge are found.
pub const ARTIFACT_SEARCH_OVERLAP_BYTES: usize = 4 * 1024;
/// Bytes that are shown of one found line.
pub const ARTIFACT_SEARCH_SHOWN_MAX_BYTES: usize = 500;
/// Bytes of a pattern.
pub const ARTIFACT_SEARCH_PATTERN_MAX_BYTES: usize = 4 * 1024;
/// Bytes of a compiled pattern: Unicode classes with repetitions are large, and this is far beyond useful ones.
pub const ARTIFACT_SEARCH_PROGRAM_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Matching lines of one `search_artifact` result; its bytes are bounded too.
pub const ARTIFACT_SEARCH_TOOL_MATCHES_MAX: usize = 200;
/// Matching lines of one search by a client when it names no bound.
pub const ARTIFACT_SEARCH_MATCHES_DEFAULT: usize = 1_000;
/// Lines of context before or after a match.
pub const ARTIFACT_SEARCH_CONTEXT_MAX: usize = 1_000;
/// Bytes of one content of a changed file up to which a diff is made.
pub const CHANGED_CONTENT_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Bytes read of a file to see whether it is still as it was left; larger ones no file tool leaves.
pub const CHANGED_READ_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Bytes that one changed file takes in an answer beside its diff.
pub const CHANGED_FILE_BYTES: usize = 512;
/// Files in one patch: a rename through a whole project fits, and each has its line in the question to a person.
pub const PATCH_FILES_MAX: usize = 500;
/// Hunks in one patch. Each may be sought through its whole file, so this bounds the time.
pub const PATCH_HUNKS_MAX: usize = 2_000;
/// Bytes of all contents of one patch, before and after together: they are in memory until all files are in place.
pub const PATCH_MAX_BYTES: usize = 128 * 1024 * 1024;
/// Lines that name the place of one hunk of a patch, each sought through the file: deeper nesting than code has.
pub const PATCH_ANCHORS_MAX: usize = 16;
/// Paths that the reason of one decision names: more than a person reads in one line; the preview has them all.
pub const REASON_PATHS_MAX: usize = 10;
