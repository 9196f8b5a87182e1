%% Registers names with syn on two of three nodes of this machine, as `callsign bench --load --only callers` does with Callsign: a process
%% for each name, so many callers on each node, and the time until each registration is acknowledged and every node knows it.
%%
%% Or it publishes a message to a group whose members are on three nodes, as the part `groups` of `callsign bench --names-api` does.
%%
%% It is called by `tests/beside/run`.
-module(beside_syn).
-export([main/1, publish/1, spawn_processes/1, register_names/3, join_members/1, publish_once/0, heard/0]).

-define(SCOPE, names).
-define(GROUP, group).
-define(ROUNDS, 20).

%% [Names, Callers]: how many names, and how many callers on each of the two nodes. Prints one line of JSON.
main(Arguments) ->
    [Names, Callers] = [list_to_integer(Argument) || Argument <- Arguments],
    Nodes = [start(Name) || Name <- [worker_1, worker_2, observer]],
    [wait_until(fun() -> length(ask(Node, syn, subcluster_nodes, [registry, ?SCOPE])) =:= 2 end) || Node <- Nodes],
    Workers = lists:sublist(Nodes, 2),
    Share = Names div length(Workers),
    [ok = ask(Worker, ?MODULE, spawn_processes, [Share]) || Worker <- Workers],
    Before = cpu_ticks(Nodes),
    Begun = erlang:monotonic_time(microsecond),
    Parent = self(),
    Asked = [spawn_link(fun() -> Parent ! {self(), ask(Worker, ?MODULE, register_names, [Number, Share, Callers])} end)
        || {Number, Worker} <- lists:enumerate(Workers)],
    [receive {Pid, Registered} -> ok = Registered end || Pid <- Asked],
    [wait_until(fun() -> ask(Node, syn, registry_count, [?SCOPE]) =:= Share * length(Workers) end) || Node <- Nodes],
    Took = erlang:monotonic_time(microsecond) - Begun,
    Ticks = cpu_ticks(Nodes) - Before,
    io:format("{\"callers\":~b,\"names\":~b,\"registrations_per_s\":~.1f,\"cpu_us_per_registration\":~.1f}~n",
        [Callers, Names, Names * 1.0e6 / Took, Ticks * 1.0e4 / Names]),
    [peer:stop(Peer) || {Peer, _} <- Nodes],
    halt(0).

%% [Members]: how many processes are in the group. Prints one line of JSON: the median of the times from the call of `syn:publish` until the
%% last member has heard it.
publish([Argument]) ->
    Members = list_to_integer(Argument),
    Nodes = [start(Name) || Name <- [worker_1, worker_2, worker_3]],
    [wait_until(fun() -> length(ask(Node, syn, subcluster_nodes, [pg, ?SCOPE])) =:= 2 end) || Node <- Nodes],
    Share = Members div length(Nodes),
    [ok = ask(Node, ?MODULE, join_members, [Share]) || Node <- Nodes],
    All = Share * length(Nodes),
    [wait_until(fun() -> ask(Node, syn, member_count, [?SCOPE, ?GROUP]) =:= All end) || Node <- Nodes],
    Took = lists:sort([publish_to(Nodes, Round * Share) || Round <- lists:seq(1, ?ROUNDS)]),
    Median = (lists:nth(?ROUNDS div 2, Took) + lists:nth(?ROUNDS div 2 + 1, Took)) / 2,
    io:format("{\"members\":~b,\"publish_p50_ms\":~.3f}~n", [All, Median / 1.0e6]),
    [peer:stop(Peer) || {Peer, _} <- Nodes],
    halt(0).

%% Publishes once, from the first node. Returns how many nanoseconds it took until the members of each node had heard so much, all together.
publish_to([First | _] = Nodes, Heard) ->
    Begun = ask(First, ?MODULE, publish_once, []),
    [wait_until(fun() -> element(1, ask(Node, ?MODULE, heard, [])) =:= Heard end) || Node <- Nodes],
    lists:max([element(2, ask(Node, ?MODULE, heard, [])) || Node <- Nodes]) - Begun.

%% The clock is the machine's, and so the same in all nodes.
publish_once() ->
    Begun = erlang:convert_time_unit(os:perf_counter(), perf_counter, nanosecond),
    {ok, _} = syn:publish(?SCOPE, ?GROUP, {text, <<7:256>>}),
    Begun.

%% How many messages the members of this node have heard, and when the last of them was.
heard() ->
    Heard = persistent_term:get(?MODULE),
    {atomics:get(Heard, 1), atomics:get(Heard, 2)}.

%% Has as many processes join the group.
join_members(Count) ->
    Heard = atomics:new(2, []),
    persistent_term:put(?MODULE, Heard),
    spawn(fun() ->
        [ok = syn:join(?SCOPE, ?GROUP, spawn(fun() -> hear(Heard) end)) || _ <- lists:seq(1, Count)],
        receive stop -> ok end
    end),
    ok.

hear(Heard) ->
    receive
        {text, _} ->
            latest(Heard, erlang:convert_time_unit(os:perf_counter(), perf_counter, nanosecond)),
            atomics:add(Heard, 1, 1),
            hear(Heard)
    end.

latest(Heard, At) ->
    case atomics:get(Heard, 2) of
        Before when Before >= At -> ok;
        Before ->
            case atomics:compare_exchange(Heard, 2, Before, At) of
                ok -> ok;
                _ -> latest(Heard, At)
            end
    end.

%% A process of the operating system, with syn in it.
start(Name) ->
    %% Schedulers that spin while they wait would count as work.
    Quiet = ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"],
    Loopback = ["-kernel", "inet_dist_use_interface", "{127,0,0,1}"],
    Options = #{name => Name, host => "127.0.0.1", longnames => true, connection => standard_io,
        args => Quiet ++ Loopback ++ ["-setcookie", "beside", "-pa" | code_paths()]},
    {ok, Peer, Node} = peer:start(Options),
    {ok, _} = peer:call(Peer, application, ensure_all_started, [syn]),
    ok = peer:call(Peer, syn, add_node_to_scopes, [[?SCOPE]]),
    [true = peer:call(Peer, net_kernel, connect_node, [Other]) || Other <- get_known()],
    put(known, [Node | get_known()]),
    {Peer, peer:call(Peer, os, getpid, [])}.

get_known() -> case get(known) of undefined -> []; Known -> Known end.

code_paths() -> [filename:absname(Path) || Path <- code:get_path(), filename:basename(Path) =:= "beside-ebin"].

ask({Peer, _}, Module, Function, Arguments) -> peer:call(Peer, Module, Function, Arguments, infinity).

%% A process that does nothing, for each name. They are spawned before the clock runs, and found by their number.
spawn_processes(Count) ->
    Self = self(),
    spawn(fun() ->
        Processes = list_to_tuple([spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, Count)]),
        persistent_term:put(?MODULE, Processes),
        Self ! spawned,
        receive stop -> ok end
    end),
    receive spawned -> ok end.

%% Registers as many names of worker `Number`, by so many callers at once.
register_names(Number, Count, Callers) ->
    Next = atomics:new(1, []),
    Prefix = <<"worker-", (integer_to_binary(Number))/binary, "/name-">>,
    Register = fun Register() ->
        case atomics:add_get(Next, 1, 1) of
            Index when Index > Count -> ok;
            Index ->
                Name = <<Prefix/binary, (integer_to_binary(Index))/binary>>,
                ok = syn:register(?SCOPE, Name, element(Index, persistent_term:get(?MODULE))),
                Register()
        end
    end,
    Spawned = [spawn_monitor(Register) || _ <- lists:seq(1, Callers)],
    [receive {'DOWN', Monitor, process, Pid, Reason} -> normal = Reason end || {Pid, Monitor} <- Spawned],
    ok.

%% Hundredths of a second that the nodes' processes have used, user and system.
cpu_ticks(Nodes) ->
    lists:sum([
        begin
            {ok, Stat} = file:read_file("/proc/" ++ Pid ++ "/stat"),
            [_, Rest] = string:split(Stat, ") ", trailing),
            Fields = string:lexemes(Rest, " "),
            binary_to_integer(lists:nth(12, Fields)) + binary_to_integer(lists:nth(13, Fields))
        end || {_, Pid} <- Nodes]).

wait_until(Holds) ->
    case Holds() of
        true -> ok;
        false -> timer:sleep(1), wait_until(Holds)
    end.
