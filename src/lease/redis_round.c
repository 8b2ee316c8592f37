/*
 * Each script is one step that nothing of the server comes between. Each attempt to take
 * a lease has a nonce of its own: what an answer that got lost may have granted is taken
 * back by it, whatever was granted since.
 *
 * ARGV[1] is the prefix, ARGV[2] who asks. Scripts make names of keys, so a cluster
 * cannot run them.
 */
#include "lease/redis_round.h"

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/hash.h"

/* A lease is known by its nonce, which others that use the key have alone in it. wake()
 * tells the first living one in the line, and forgets dead ones before it. What would
 * last longer than it was meant to is of a time that the server's clock was set back
 * from. */
#define COMMON                                                                           \
	"local K,F,L,P,me=KEYS[1],KEYS[2],KEYS[3],ARGV[1],ARGV[2]\n"                     \
	"local call=redis.call\n"                                                        \
	"local function is(v,n) return v and n~='' and "                                 \
	"(v==n or string.sub(v,1,#n+1)==n..' ') end\n"                                   \
	"local function fence_of(c) return tonumber(string.match(c or '','^%d+') or "    \
	"'0') "                                                                          \
	"end\n"                                                                          \
	"local function text(n) return string.format('%.0f',n) end\n"                    \
	"local function keep(n,state,v) "                                                \
	"call('SET',F,text(n)..' '..state..' '..v,'PX',604800000) end\n"                 \
	"local function wake()\n"                                                        \
	" while true do\n"                                                               \
	"  local head=call('ZRANGE',L,0,0)[1]\n"                                         \
	"  if not head then return false end\n"                                          \
	"  local left=call('PTTL',K..'#wait:'..head)\n"                                  \
	"  if left>=0 and left<=5000 then\n"                                             \
	"   if head~=me then local list=P..'#wake:'..head\n"                             \
	"    call('RPUSH',list,K) call('PEXPIRE',list,10000) end\n"                      \
	"   return head\n"                                                               \
	"  end\n"                                                                        \
	"  call('ZREM',L,head)\n"                                                        \
	" end\n"                                                                         \
	"end\n"

/* 3 nonce, 4 owner text ("": the value is the nonce alone), 5 ttl, 6 floor of the fence,
 * 7 a grant's nonce that is given up first, 8 a waiter that is dead, 9 the place in the
 * line ("": no wait; "0": at its end), 10 the waiter's text, 11 "1": one of several
 * servers, so that a grant is one only once it is confirmed, 12 "1": the holder gave up 7
 * for us, else it is dead.
 * {0, value, its ttl, place}: held; {2, waiter, 0, place, its id}: another's turn;
 * {1, fence, "", place, how the one before ended, that one, whether others wait, the text
 * of the first of them or ""}: granted. So it is if this very request has come before and
 * its answer was lost; how the one before ended is then mostly forgotten, and a lapse
 * assumed.
 *
 * What was given up for us is followed by a fence that is the same wherever the one
 * before was: if all who grant it say the same, nothing is left to be confirmed. */
static const char acquire_script[] = COMMON
	"local nonce,owner,ttl,place=ARGV[3],ARGV[4],ARGV[5],ARGV[9]\n"
	"local v,c=call('GET',K),call('GET',F)\n"
	"local line=call('ZRANGE',L,0,1)\n"
	"local head=line[1]\n"
	"local function next_fence() return math.max(fence_of(c),"
	"tonumber(string.match(v,' fence=(%d+)') or '0'))+32 end\n"
	/* The usual case, with less to do. */
	"if head==me and ARGV[12]=='1' and is(v,ARGV[7]) then\n"
	" local n=math.max(next_fence(),ARGV[6]+1)\n"
	" if n>=9007199254740991 then return redis.error_reply('FENCE used up') end\n"
	" v=nonce..' fence='..text(n)..' '..owner\n"
	" call('SET',K,v,'PX',ttl) keep(n,'held',v) call('ZREM',L,me)\n"
	" return {1,text(n),'',place,'given',string.match(c or '','^%d+ %a+ (.*)$') or "
	"'',"
	"#line-1,line[2] and call('GET',K..'#wait:'..line[2]) or ''}\n"
	"end\n"
	"local before=c and string.match(c,'^%d+ (%a+) ') or 'none'\n"
	"local latest=c and string.match(c,'^%d+ %a+ (.*)$') or ''\n"
	"if is(v,nonce) then\n"
	" call('ZREM',L,me) call('DEL',K..'#wait:'..me)\n"
	" call('PEXPIRE',K,ttl)\n"
	" if is(latest,nonce) then latest='' end\n"
	" local f=string.match(v,' fence=(%d+)') or text(fence_of(c))\n"
	" return {1,f,'',place,before,latest,#call('ZRANGE',L,0,0),''}\n"
	"end\n"
	"local given=0\n"
	"if is(v,ARGV[7]) then\n"
	" if ARGV[12]=='1' then before='given' given=next_fence()\n"
	" else before='died' end\n"
	" call('DEL',K) v=false\n"
	"end\n"
	"if ARGV[8]~='' then call('ZREM',L,ARGV[8]) end\n"
	"if place~='' and (v or head) then\n"
	" if place=='0' then local t=call('TIME') place=text(t[1]*1000000+t[2]) end\n"
	" call('SET',K..'#wait:'..me,ARGV[10],'PX',3000)\n"
	" call('ZADD',L,place,me)\n"
	" call('PEXPIRE',L,60000)\n"
	"end\n"
	"if v then\n"
	" local left,own=call('PTTL',K),tonumber(string.match(v,' ttl=(%d+) '))\n"
	" if own and left>own+2000 then call('PEXPIRE',K,own) left=own end\n"
	" return {0,v,left,place}\n"
	"end\n"
	"if head then\n"
	" head=wake()\n"
	" if head and head~=me then\n"
	"  if before=='given' then keep(fence_of(c),'released',latest) end\n"
	"  return {2,call('GET',K..'#wait:'..head) or '',0,place,head}\n"
	" end\n"
	"end\n"
	"local t=call('TIME')\n"
	"local n=math.max(fence_of(c)+32,t[1]*1000000+t[2],ARGV[6]+1)\n"
	"if ARGV[11]=='1' and given>0 then n=math.max(given,ARGV[6]+1) end\n"
	"if n>=9007199254740991 then return redis.error_reply('FENCE used up') end\n"
	"v=owner=='' and nonce or nonce..' fence='..text(n)..' '..owner\n"
	"if ARGV[11]=='' or given>0 then keep(n,'held',v)\n"
	"else keep(n,before=='died' and 'held' or before,latest) end\n"
	"call('SET',K,v,'PX',ttl)\n"
	"if not head then return {1,text(n),'',place,before,latest,0,''} end\n"
	"call('ZREM',L,me) call('DEL',K..'#wait:'..me)\n"
	"head=call('ZRANGE',L,0,0)[1]\n"
	"return {1,text(n),'',place,before,latest,head and 1 or 0,"
	"head and call('GET',K..'#wait:'..head) or ''}\n";

_Static_assert(LEASE_FENCES == 32, "the script has the number as well");

/* 3 nonce, 4 fence, 5 owner text: whom it was handed to; 6 its nonce now, 7 "1": who asks
 * has left the line with it. {1, the text of the first who waits}, {0, ""}, {-1}: it is
 * another's by now. */
static const char pass_script[] =
	COMMON "local v,left=call('GET',K),call('PTTL',K)\n"
	       "if not (is(v,ARGV[3]) or is(v,ARGV[6])) or left<=0 then "
	       "return {-1} end\n"
	       "local n=tonumber(ARGV[4])\n"
	       "if tonumber(string.match(v,' fence=(%d+)') or '0')<=n then\n"
	       " v=ARGV[6]..' fence='..ARGV[4]..' '..ARGV[5]\n"
	       " keep(math.max(fence_of(call('GET',F)),n),'held',v)\n"
	       " call('SET',K,v,'PX',left)\n"
	       "end\n"
	       "if ARGV[7]~='' then call('ZREM',L,me) call('DEL',K..'#wait:'..me) end\n"
	       "local head=call('ZRANGE',L,0,0)[1]\n"
	       "if not head then return {0,''} end\n"
	       "return {1,call('GET',K..'#wait:'..head) or ''}\n";

/* 3 nonce, 4 fence: the lease has it from now on, here too. 1: it has. */
static const char confirm_script[] =
	COMMON "call('ZREM',L,me) call('DEL',K..'#wait:'..me)\n"
	       "local v,left=call('GET',K),call('PTTL',K)\n"
	       "if not is(v,ARGV[3]) or left<=0 then return 0 end\n"
	       "v=string.gsub(v,' fence=%d+',' fence='..ARGV[4],1)\n"
	       "keep(math.max(fence_of(call('GET',F)),tonumber(ARGV[4])),'held',v)\n"
	       "call('SET',K,v,'PX',left)\n"
	       "return 1\n";

/* 3 nonce, 4 ttl. {1, value}: extended; 0: it is another's; -1: there is none, and what
 * has lapsed stays so. */
static const char extend_script[] = COMMON "local v=call('GET',K)\n"
					   "if not v then return -1 end\n"
					   "if not is(v,ARGV[3]) then return 0 end\n"
					   "call('PEXPIRE',F,604800000)\n"
					   "return {call('PEXPIRE',K,ARGV[4]),v}\n";

/* 3 nonce. 1: released; 0: another's; -1: there was none. */
static const char release_script[] =
	COMMON "local v=call('GET',K)\n"
	       "if v and not is(v,ARGV[3]) then return 0 end\n"
	       "if v then\n"
	       " call('DEL',K)\n"
	       " local c=call('GET',F)\n"
	       " if c and string.match(c,'^%d+ %a+ (.*)$')==v then "
	       "keep(fence_of(c),'released',v) end\n"
	       "end\n"
	       "wake()\n"
	       "return v and 1 or -1\n";

/* Whoever leaves may have been told that it is its turn. */
static const char leave_script[] =
	COMMON "call('ZREM',L,me) call('DEL',K..'#wait:'..me)\n"
	       "if call('EXISTS',K)==0 then wake() end\n"
	       "return 1\n";

/* 3 nonce, 4 fence. As release, but the fence grows. If this very request has come before
 * and its answer was lost, it is released. */
static const char force_script[] =
	COMMON "local v=call('GET',K)\n"
	       "local forced=string.match(call('GET',F) or '','^%d+ forced (.*)$')\n"
	       "if not v then return is(forced,ARGV[3]) and 1 or -1 end\n"
	       "if not is(v,ARGV[3]) then return 0 end\n"
	       "keep(math.max(fence_of(call('GET',F)),tonumber(ARGV[4]))+1,'forced',v)\n"
	       "call('DEL',K)\n"
	       "wake()\n"
	       "return 1\n";

static const char inspect_script[] =
	COMMON "return {call('GET',K) or '',call('PTTL',K),call('GET',F) or ''}\n";

/* 1: another one waits who has asked within 3 seconds. Changes nothing. */
static const char wanted_script[] =
	COMMON "for _,id in ipairs(call('ZRANGE',L,0,-1)) do\n"
	       " local left=call('PTTL',K..'#wait:'..id)\n"
	       " if id~=me and left>=0 and left<=5000 then return 1 end\n"
	       "end\n"
	       "return 0\n";

static const char *const scripts[REDIS_SCRIPTS] = {
	[REDIS_ACQUIRE] = acquire_script, [REDIS_CONFIRM] = confirm_script,
	[REDIS_PASS] = pass_script,       [REDIS_EXTEND] = extend_script,
	[REDIS_RELEASE] = release_script, [REDIS_LEAVE] = leave_script,
	[REDIS_FORCE] = force_script,     [REDIS_INSPECT] = inspect_script,
	[REDIS_WANTED] = wanted_script,
};

void redis_scripts_init(struct redis_backend *backend)
{
	for (int i = 0; i < REDIS_SCRIPTS; i++) {
		AUTO_STR struct str hex = STR_INIT;
		hash_add_hex(HASH_SHA1, scripts[i], strlen(scripts[i]),
			     hash_size(HASH_SHA1), &hex);
		memcpy(backend->digests[i], hex.data, sizeof(backend->digests[i]));
	}
}

void redis_call_add(const struct redis_backend *backend, const struct redis_call *call,
		    bool is_by_digest, struct redis_request *request)
{
	AUTO_FREE char *fence = xasprintf("%s#fence", call->key);
	AUTO_FREE char *line = xasprintf("%s#line", call->key);
	const char *words[8 + REDIS_ARGUMENTS_MOST] = {
		is_by_digest ? "EVALSHA" : "EVAL",
		is_by_digest ? backend->digests[call->script] : scripts[call->script],
		"3",
		call->key,
		fence,
		line,
		backend->prefix,
		backend->server.me,
	};

	for (size_t i = 0; i < call->count; i++)
		words[8 + i] = call->arguments[i];
	redis_request_add(request, 8 + (int)call->count, words);
}

/* ------------------------------------------------------------------ rounds */

/* A server forgets scripts when it starts anew. */
static bool redis_request_lacks_script(const struct redis_request *request)
{
	for (size_t i = 0; i < request->replies.count; i++) {
		const redisReply *reply = request->replies.items[i];
		if (reply->type == REDIS_REPLY_ERROR &&
		    text_starts_with(reply->str, "NOSCRIPT"))
			return true;
	}
	return false;
}

static void redis_round_add(struct redis_backend *backend, struct redis_request *request,
			    const struct redis_call *calls, size_t count,
			    bool is_by_digest)
{
	for (size_t i = 0; i < count; i++)
		redis_call_add(backend, &calls[i], is_by_digest, request);
}

static void redis_round_again(struct redis_backend *backend,
			      struct redis_request *request,
			      const struct redis_call *calls, size_t count,
			      bool is_by_digest)
{
	struct redis_connection *connection = request->connection;

	redis_request_clear(request);
	redis_request_init(request, connection);
	redis_round_add(backend, request, calls, count, is_by_digest);
}

static bool redis_round_add_missing(struct redis_backend *backend,
				    struct redis_round *round,
				    const struct redis_call *calls, size_t count)
{
	bool has_any = false;

	for (size_t i = 0; i < round->count; i++) {
		struct redis_request *request = &round->requests[i];
		if (!redis_request_lacks_script(request))
			continue;
		redis_round_again(backend, request, calls, count, false);
		has_any = true;
	}
	return has_any;
}

/* A server that failed is left alone for a while, unless the others are too few. */
static bool redis_round_rouse(struct redis_backend *backend, struct redis_round *round,
			      const struct redis_call *calls, size_t count)
{
	bool has_any = false;
	size_t answered = 0;

	for (size_t i = 0; i < round->count; i++)
		answered += round->requests[i].progress == REDIS_ANSWERED;
	for (size_t i = 0; i < round->count && answered < backend->quorum; i++) {
		struct redis_request *request = &round->requests[i];
		if (!request->is_resting)
			continue;
		redis_connection_rouse(request->connection);
		redis_round_again(backend, request, calls, count, true);
		has_any = true;
	}
	return has_any;
}

static bool redis_connection_is_old(const struct redis_backend *backend,
				    const struct redis_connection *connection)
{
	return backend->count == 1 ||
	       redis_connection_born_at(connection) <
		       clock_boot_ms() - backend->base.ttl_ms - 1000;
}

/* One answer that refuses spoils all of that server. */
static void redis_round_check(const struct redis_backend *backend,
			      struct redis_round *round, size_t server)
{
	struct redis_request *request = &round->requests[server];

	for (size_t i = 0; i < request->replies.count; i++) {
		if (request->progress == REDIS_ANSWERED &&
		    redis_reply_check(request->replies.items[i],
				      backend->addresses[server].text,
				      &request->err) != 0)
			request->progress = REDIS_FAILED;
	}
	if (request->progress == REDIS_ANSWERED)
		round->answered++;
	else
		round->err = request->err;
}

static void redis_round_exchange(struct redis_backend *backend, struct redis_round *round,
				 int64_t until)
{
	redis_exchange(round->requests, round->count, backend->quorum, until,
		       backend->command_ms / 4);
}

void redis_round_run(struct redis_backend *backend, struct redis_round *round,
		     const struct redis_call *calls, size_t count, int64_t until)
{
	int channel = lease_server_borrow(&backend->server, until);

	*round = (struct redis_round){ .count = backend->count };
	for (size_t i = 0; i < round->count; i++) {
		redis_request_init(&round->requests[i],
				   channel < 0 ? NULL : backend->channels[channel][i]);
		redis_round_add(backend, &round->requests[i], calls, count, true);
	}
	if (channel < 0) {
		err_set(&round->err, ERR_TIMEOUT,
			"leases: all connections to Redis wait for its answers");
		err_because(&round->err, REASON_LOCK_UNAVAILABLE);
		err_remedy(&round->err, "check that the server runs and is not "
					"overloaded");
		return;
	}
	redis_round_exchange(backend, round, until);
	if (redis_round_rouse(backend, round, calls, count)) {
		until = redis_until(backend);
		redis_round_exchange(backend, round, until);
	}
	if (redis_round_add_missing(backend, round, calls, count))
		redis_round_exchange(backend, round, until);
	for (size_t i = 0; i < round->count; i++) {
		redis_round_check(backend, round, i);
		round->may_vote[i] =
			redis_connection_is_old(backend, round->requests[i].connection);
	}
	lease_server_give_back(&backend->server, channel);
}

void redis_round_clear(struct redis_round *round)
{
	for (size_t i = 0; i < round->count; i++)
		redis_request_clear(&round->requests[i]);
}

const struct redisReply *redis_round_reply(const struct redis_round *round, size_t server,
					   size_t call)
{
	const struct redis_request *request = &round->requests[server];

	if (request->progress != REDIS_ANSWERED || call >= request->replies.count)
		return NULL;
	return request->replies.items[call];
}

int64_t redis_until(const struct redis_backend *backend)
{
	return clock_boot_ms() + backend->command_ms;
}

int redis_unavailable(const struct redis_backend *backend,
		      const struct redis_round *round, struct err *err)
{
	*err = round->err;
	if (backend->count > 1)
		err_prefix(err, "%zu of %zu servers answer, %zu must", round->answered,
			   backend->count, backend->quorum);
	return -1;
}

char *redis_server_key(const char *key, struct err *err)
{
	if (!text_ends_with(key, "#fence") && !text_ends_with(key, "#line") &&
	    !strstr(key, "#wait:") && !strstr(key, "#wake:"))
		return xstrdup(key);
	err_set(err, ERR_CONFIG,
		"the lease %.300s cannot be kept on Redis: its name is "
		"one of those that belong to leases",
		key);
	err_because(err, REASON_LOCK_UNAVAILABLE);
	return NULL;
}

int redis_round_decide(const struct redis_backend *backend,
		       const struct redis_round *round, size_t call)
{
	size_t yes = 0, no = 0;

	for (size_t i = 0; i < round->count; i++) {
		const struct redisReply *reply = redis_round_reply(round, i, call);
		yes += reply && redis_reply_number(reply, 0) == 1;
		no += reply && redis_reply_number(reply, 0) != 1;
	}
	if (yes >= backend->quorum)
		return 1;
	return no > backend->count - backend->quorum ? 0 : -1;
}

const char *redis_reply_text(const struct redisReply *reply, size_t at)
{
	if (reply->type != REDIS_REPLY_ARRAY || at >= reply->elements ||
	    !reply->element[at]->str)
		return "";
	return reply->element[at]->str;
}

int64_t redis_reply_number(const struct redisReply *reply, size_t at)
{
	if (reply->type == REDIS_REPLY_INTEGER)
		return reply->integer;
	if (reply->type != REDIS_REPLY_ARRAY || at >= reply->elements)
		return 0;
	const redisReply *element = reply->element[at];
	return element->type == REDIS_REPLY_INTEGER ? element->integer
	       : element->str                       ? strtoll(element->str, NULL, 10)
						    : 0;
}
