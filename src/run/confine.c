/*
 * Written by hand, and not by a library: this runs before each Git command, and a library
 * takes longer to make a filter of rules than all of this takes. Here it is a list of the
 * syscalls that get EPERM; those that are newer than it get ENOSYS, as from an older
 * kernel. For processors on which nobody has tried it there is no filter.
 *
 * What changes names, owners, modes, times and attributes is in the list, too: Landlock
 * knows nothing of the latter, and older kernels lack it. Opening a file for writing is
 * Landlock's alone, since git opens /dev/null so; but a file that is emptied by an open
 * for reading is the filter's, since Landlock's first two versions let that pass.
 */
#include "run/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Landlock, by the numbers of its interface: the headers of a release may be older than
 * the kernel that it runs on.
 */

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

enum {
	VERSION_FLAG = 1,
	RULE_PATH_BENEATH = 1,
	ABI_REFER = 2,
	ABI_TRUNCATE = 3,
	ABI_TCP = 4,
	ABI_IOCTL_DEVICE = 5,
	ABI_SCOPE = 6,
};

#define ACCESS_EXECUTE (UINT64_C(1) << 0)
#define ACCESS_WRITE_FILE (UINT64_C(1) << 1)
#define ACCESS_READ_FILE (UINT64_C(1) << 2)
#define ACCESS_READ_DIRECTORY (UINT64_C(1) << 3)
#define ACCESS_FIRST_VERSION ((UINT64_C(1) << 13) - 1)
#define ACCESS_REFER (UINT64_C(1) << 13)
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)
#define ACCESS_IOCTL_DEVICE (UINT64_C(1) << 15)
#define ACCESS_OF_FILES                                                                  \
	(ACCESS_EXECUTE | ACCESS_WRITE_FILE | ACCESS_READ_FILE | ACCESS_TRUNCATE |       \
	 ACCESS_IOCTL_DEVICE)
#define ACCESS_TCP 3    /* bind, connect */
#define SCOPE_OUTSIDE 3 /* abstract sockets, signals */

#define READS (ACCESS_READ_FILE | ACCESS_READ_DIRECTORY)
#define RUNS (READS | ACCESS_EXECUTE)

struct ruleset {
	uint64_t files, network, scopes;
};

struct path_rule {
	uint64_t access;
	int32_t fd;
} __attribute__((packed));

struct place {
	const char *path;
	uint64_t access;
};

/* Programs and libraries. Of /etc not more: secrets of sites are there. Few, since each
 * costs some system calls before each git. */
static const struct place system_places[] = {
	{ "/usr", RUNS },
	{ "/opt", RUNS },
	{ "/nix/store", RUNS },
	{ "/gnu/store", RUNS },
	{ "/etc/ld.so.cache", ACCESS_READ_FILE },
	{ "/etc/ld.so.preload", ACCESS_READ_FILE },
	{ "/dev/null", ACCESS_READ_FILE | ACCESS_WRITE_FILE | ACCESS_TRUNCATE },
	{ "/dev/urandom", ACCESS_READ_FILE },
};

/* Where they are no links into /usr. */
static const struct place old_places[] = {
	{ "/bin", RUNS },   { "/sbin", RUNS },  { "/lib", RUNS },
	{ "/lib32", RUNS }, { "/lib64", RUNS },
};

static long landlock_version(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_FLAG);
}

static uint64_t handled_files(long version)
{
	return ACCESS_FIRST_VERSION | (version >= ABI_REFER ? ACCESS_REFER : 0) |
	       (version >= ABI_TRUNCATE ? ACCESS_TRUNCATE : 0) |
	       (version >= ABI_IOCTL_DEVICE ? ACCESS_IOCTL_DEVICE : 0);
}

static int make_ruleset(long version, uint64_t *files)
{
	struct ruleset ruleset = {
		.files = handled_files(version),
		.network = version >= ABI_TCP ? ACCESS_TCP : 0,
		.scopes = version >= ABI_SCOPE ? SCOPE_OUTSIDE : 0,
	};

	*files = ruleset.files;
	return (int)syscall(SYS_landlock_create_ruleset, &ruleset, sizeof(ruleset), 0);
}

/* A place that is not there, or that its user may not enter, needs no rule. Rules of
 * directories are refused for files. */
static int allow_path(int ruleset, const char *path, uint64_t access)
{
	struct path_rule rule = { .access = access };
	struct stat st;
	int result;

	rule.fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -1;
	if ((access & ~ACCESS_OF_FILES) != 0 && fstat(rule.fd, &st) == 0 &&
	    !S_ISDIR(st.st_mode))
		rule.access &= ACCESS_OF_FILES;
	result =
		(int)syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0);
	close(rule.fd);
	return result;
}

static bool is_of_system(const char *path)
{
	return strncmp(path, "/usr/", strlen("/usr/")) == 0;
}

/* Where it really stands, as well: there are what it uses and starts. Not so of `/`:
 * below that is everything. */
static int allow_program_at(int ruleset, char path[PATH_MAX])
{
	char real[PATH_MAX], *slash;

	if (is_of_system(path))
		return 0;
	if (allow_path(ruleset, path, RUNS) != 0)
		return -1;
	if (!realpath(path, real) || is_of_system(real))
		return 0;
	slash = strrchr(real, '/');
	if (slash == real)
		return 0;
	*slash = '\0';
	return allow_path(ruleset, real, RUNS);
}

/* As execvp() looks for it. */
static int allow_program(int ruleset, const char *program)
{
	const char *list = getenv("PATH");
	char path[PATH_MAX];

	if (strchr(program, '/')) {
		snprintf(path, sizeof(path), "%s", program);
		return allow_program_at(ruleset, path);
	}
	for (; list && *list; list += *list == ':') {
		size_t len = strcspn(list, ":");
		int size =
			snprintf(path, sizeof(path), "%.*s/%s", (int)len, list, program);
		list += len;
		if (size < (int)sizeof(path) && access(path, X_OK) == 0)
			return allow_program_at(ruleset, path);
	}
	return 0;
}

static int allow_places(int ruleset, uint64_t files, const struct place *places,
			size_t count)
{
	int result = 0;

	for (size_t i = 0; i < count; i++)
		result |= allow_path(ruleset, places[i].path, places[i].access & files);
	return result;
}

#define ALLOW_PLACES(ruleset, files, places)                                             \
	allow_places(ruleset, files, places, sizeof(places) / sizeof(*(places)))

static int allow_all(int ruleset, uint64_t files, const struct confinement *confinement)
{
	char target[8];
	int result = ALLOW_PLACES(ruleset, files, system_places);

	if (readlink("/bin", target, sizeof(target)) < 0)
		result |= ALLOW_PLACES(ruleset, files, old_places);
	result |= allow_path(ruleset, ".", READS);
	for (size_t i = 0; i < confinement->path_count; i++)
		result |= allow_path(ruleset, confinement->paths[i], READS);
	return result | allow_program(ruleset, confinement->program);
}

/* A container's own filter may say EPERM of syscalls that it does not know. */
static int confine_files(const struct confinement *confinement)
{
	long version = landlock_version();
	uint64_t files;
	int ruleset, result;

	if (version < 1)
		return errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM ? 0 : -1;
	ruleset = make_ruleset(version, &files);
	if (ruleset < 0)
		return -1;
	result = allow_all(ruleset, files, confinement);
	if (result == 0)
		result = (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
	close(ruleset);
	return result;
}

/*
 * The filter.
 */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE

enum {
	KNOWN = 463,             /* syscalls from there on are newer than this */
	NEW_SYS_fchmodat2 = 452, /* the headers of a release may lack it */
	IO_PRIORITY_OF_PROCESS = 1,
};

#define NEW_NAMESPACES                                                                   \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |   \
	 CLONE_NEWPID | CLONE_NEWNET)

static const uint16_t refused[] = {
	/* others to talk to */
	SYS_socket,
	SYS_connect,
	SYS_bind,
	SYS_listen,
	SYS_accept,
	SYS_accept4,
	/* the numbers of others' queues and semaphores can be guessed */
	SYS_shmget,
	SYS_shmat,
	SYS_shmctl,
	SYS_msgget,
	SYS_msgsnd,
	SYS_msgrcv,
	SYS_msgctl,
	SYS_semget,
	SYS_semop,
	SYS_semtimedop,
	SYS_semctl,
	SYS_mq_open,
	SYS_mq_unlink,
	/* other processes, and the kernel's further doors */
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_pidfd_getfd,
	SYS_pidfd_open,
	SYS_pidfd_send_signal,
	SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo,
	SYS_move_pages,
	SYS_migrate_pages,
	SYS_kcmp,
	SYS_perf_event_open,
	SYS_bpf,
	SYS_userfaultfd,
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_add_key,
	SYS_request_key,
	SYS_keyctl,
	SYS_personality,
	SYS_syslog,
	SYS_acct,
	SYS_quotactl,
	SYS_reboot,
	SYS_kexec_load,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_swapon,
	SYS_swapoff,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_adjtimex,
	SYS_clock_adjtime,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_vhangup,
	/* other views of the files */
	SYS_unshare,
	SYS_setns,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_open_tree,
	SYS_move_mount,
	SYS_fsopen,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fspick,
	SYS_mount_setattr,
	SYS_name_to_handle_at,
	SYS_open_by_handle_at,
	SYS_fanotify_init,
	SYS_fanotify_mark,
	/* changes of what is there */
	SYS_fchmod,
	SYS_fchmodat,
	SYS_fchown,
	SYS_fchownat,
	SYS_utimensat,
	SYS_setxattr,
	SYS_lsetxattr,
	SYS_fsetxattr,
	SYS_removexattr,
	SYS_lremovexattr,
	SYS_fremovexattr,
	SYS_renameat2,
	SYS_unlinkat,
	SYS_linkat,
	SYS_symlinkat,
	SYS_mkdirat,
	SYS_mknodat,
	SYS_truncate,
	NEW_SYS_fchmodat2,
#ifdef SYS_renameat
	SYS_renameat,
#endif
#ifdef SYS_kexec_file_load
	SYS_kexec_file_load,
#endif
#ifdef __x86_64__
	SYS_chmod,
	SYS_chown,
	SYS_lchown,
	SYS_utime,
	SYS_utimes,
	SYS_futimesat,
	SYS_creat,
	SYS_rename,
	SYS_unlink,
	SYS_link,
	SYS_symlink,
	SYS_mkdir,
	SYS_rmdir,
	SYS_mknod,
	SYS_iopl,
	SYS_ioperm,
	SYS_modify_ldt,
#endif
};

struct filter {
	struct sock_filter items[256];
	unsigned short count;
};

static void filter_add(struct filter *filter, struct sock_filter instruction)
{
	if (filter->count == sizeof(filter->items) / sizeof(*filter->items))
		abort();
	filter->items[filter->count++] = instruction;
}

#define ADD(code, value) filter_add(filter, (struct sock_filter)BPF_STMT(code, value))
#define ADD_JUMP(test, value, yes, no)                                                   \
	filter_add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | (test) | BPF_K, value, \
							yes, no))
#define LOAD(member)                                                                     \
	ADD(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, member))
#define RETURN(value) ADD(BPF_RET | BPF_K, value)
#define REFUSE(error) (SECCOMP_RET_ERRNO | (error))

/* The lower half of an argument: both machines have it first. */
#define ARGUMENT(i) args[i]

/* Programs for another processor are none of ours; a newer syscall is not there, nor are
 * x86's second table's, whose numbers are high. */
static void filter_add_beginning(struct filter *filter)
{
	LOAD(arch);
	ADD_JUMP(BPF_JEQ, ARCHITECTURE, 1, 0);
	RETURN(SECCOMP_RET_KILL_PROCESS);
	LOAD(nr);
	ADD_JUMP(BPF_JGE, KNOWN, 0, 1);
	RETURN(REFUSE(ENOSYS));
}

/* These hide their flags in memory. Without them the C library uses clone, and openat. */
static const uint16_t absent[] = { SYS_clone3, SYS_openat2 };

/* What depends on arguments. */
static const uint16_t special[] = {
	SYS_openat,
#ifdef __x86_64__
	SYS_open,
#endif
	SYS_clone,
	SYS_ioctl,
	SYS_setpriority,
	SYS_ioprio_set,
	/* whose first argument is a process */
	SYS_prlimit64,
	SYS_sched_setaffinity,
	SYS_sched_setattr,
	SYS_sched_setparam,
	SYS_sched_setscheduler,
};

/* Each of these passes over its instructions if it is another syscall. */

/* O_TRUNC is refused unless the file is opened for writing, for which Landlock has a
 * right. So it is with both bits of the mode, which the kernel takes for neither. */
static void filter_add_opening(struct filter *filter, uint32_t call, unsigned flags)
{
	ADD_JUMP(BPF_JEQ, call, 0, 6);
	LOAD(ARGUMENT(flags));
	ADD(BPF_ALU | BPF_AND | BPF_K, O_TRUNC | O_ACCMODE);
	ADD_JUMP(BPF_JEQ, O_TRUNC | O_RDONLY, 1, 0);
	ADD_JUMP(BPF_JEQ, O_TRUNC | O_ACCMODE, 0, 1);
	RETURN(REFUSE(EPERM));
	RETURN(SECCOMP_RET_ALLOW);
}

static void filter_add_clone(struct filter *filter)
{
	ADD_JUMP(BPF_JEQ, SYS_clone, 0, 4);
	LOAD(ARGUMENT(0));
	ADD_JUMP(BPF_JSET, NEW_NAMESPACES, 0, 1);
	RETURN(REFUSE(EPERM));
	RETURN(SECCOMP_RET_ALLOW);
}

/* What types into a terminal would type into its owner's. */
static void filter_add_ioctl(struct filter *filter)
{
	ADD_JUMP(BPF_JEQ, SYS_ioctl, 0, 5);
	LOAD(ARGUMENT(1));
	ADD_JUMP(BPF_JEQ, TIOCSTI, 1, 0);
	ADD_JUMP(BPF_JEQ, TIOCLINUX, 0, 1);
	RETURN(REFUSE(EPERM));
	RETURN(SECCOMP_RET_ALLOW);
}

/* Its own priority, as of nice and ionice in a hook: not those of a group or a user. */
static void filter_add_priority(struct filter *filter, uint32_t call, uint32_t process)
{
	ADD_JUMP(BPF_JEQ, call, 0, 6);
	LOAD(ARGUMENT(0));
	ADD_JUMP(BPF_JEQ, process, 0, 2);
	LOAD(ARGUMENT(1));
	ADD_JUMP(BPF_JEQ, 0, 1, 0);
	RETURN(REFUSE(EPERM));
	RETURN(SECCOMP_RET_ALLOW);
}

/* The most frequent first. What is left at the end may name no process but its own. */
static void filter_add_special(struct filter *filter)
{
	filter_add_opening(filter, SYS_openat, 2);
#ifdef __x86_64__
	filter_add_opening(filter, SYS_open, 1);
#endif
	filter_add_ioctl(filter);
	filter_add_clone(filter);
	filter_add_priority(filter, SYS_setpriority, PRIO_PROCESS);
	filter_add_priority(filter, SYS_ioprio_set, IO_PRIORITY_OF_PROCESS);
	LOAD(ARGUMENT(0));
	ADD_JUMP(BPF_JEQ, 0, 1, 0);
	RETURN(REFUSE(EPERM));
	RETURN(SECCOMP_RET_ALLOW);
}

/* Where a comparison leads: the instructions behind the tree, in this order. */
enum verdict { ALLOWED, REFUSED, ABSENT, SPECIAL };

/* Syscalls from `first` on, up to the next range, have this verdict. */
struct range {
	uint32_t first;
	enum verdict verdict;
};

static unsigned make_ranges(struct range ranges[KNOWN])
{
	enum verdict verdicts[KNOWN] = { ALLOWED };
	unsigned count = 0;

	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		verdicts[refused[i]] = REFUSED;
	for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++)
		verdicts[absent[i]] = ABSENT;
	for (size_t i = 0; i < sizeof(special) / sizeof(*special); i++)
		verdicts[special[i]] = SPECIAL;
	for (uint32_t i = 0; i < KNOWN; i++)
		if (i == 0 || verdicts[i] != verdicts[i - 1])
			ranges[count++] = (struct range){ i, verdicts[i] };
	return count;
}

/* How far from the next instruction one of these ranges is looked for: in their tree,
 * which begins `skip` behind that; one alone at its verdict. */
static uint8_t jump_to(const struct filter *filter, const struct range *ranges,
		       unsigned count, unsigned skip, unsigned end)
{
	unsigned far = count == 1 ? end + ranges->verdict - (filter->count + 1) : skip;

	if (far > UINT8_MAX)
		abort();
	return (uint8_t)far;
}

/* A tree of comparisons, count - 1 of them, that leads to the verdicts at `end`. Few and
 * low, since the kernel compiles it, and runs it for each syscall when the filter is
 * installed, to know from then on which are always allowed. */
static void filter_add_tree(struct filter *filter, const struct range *ranges,
			    unsigned count, unsigned end)
{
	unsigned left = count / 2;

	if (count == 1)
		return;
	ADD_JUMP(BPF_JGE, ranges[left].first,
		 jump_to(filter, ranges + left, count - left, left - 1, end),
		 jump_to(filter, ranges, left, 0, end));
	filter_add_tree(filter, ranges, left, end);
	filter_add_tree(filter, ranges + left, count - left, end);
}

static int confine_calls(void)
{
	struct filter made = { .count = 0 }, *filter = &made;
	struct range ranges[KNOWN];
	struct sock_fprog program;
	unsigned count = make_ranges(ranges);

	if (prctl(PR_GET_SECCOMP) < 0)
		return 0; /* a kernel without it */
	filter_add_beginning(filter);
	filter_add_tree(filter, ranges, count, filter->count + count - 1);
	RETURN(SECCOMP_RET_ALLOW);
	RETURN(REFUSE(EPERM));
	RETURN(REFUSE(ENOSYS));
	filter_add_special(filter);
	program = (struct sock_fprog){ .len = made.count, .filter = made.items };
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#else

static int confine_calls(void)
{
	return 0;
}

#endif

int confine(const struct confinement *confinement)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    confine_files(confinement) != 0)
		return -1;
	return confine_calls();
}
