# bash completion for openclaw-cli
_openclaw_cli() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" path="" word skip=""
    local -a before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    for word in "${before[@]}"; do
        if [[ -n $skip ]]; then skip=""; continue; fi
        case "$word" in
            --active|--active-key|--agent|--archive-dir|--archive-grace|--archived|--card-tokens|--config|--cron-retention|--export-readable|--file|--format|--gateway|--high-water|--keep-last|--key|--key-glob|--kind|--labels|--limit|--lines|--max-bytes|--max-disk|--max-entries|--max-line|--min-bytes|--now|--older-than|--output|--password-file|--prune-after|--snapshot|--state-dir|--store|--timeout|--token-file|--top|--url|--wait|-n|-o) skip=1 ;;
            -*) ;;
            *) case "$path $word" in
                ' doctor') path="$path $word" ;;
                ' doctor inspect') path="$path $word" ;;
                ' doctor dry-run') path="$path $word" ;;
                ' doctor import') path="$path $word" ;;
                ' doctor validate') path="$path $word" ;;
                ' doctor restore') path="$path $word" ;;
                ' doctor recover') path="$path $word" ;;
                ' doctor compact') path="$path $word" ;;
                ' doctor fix') path="$path $word" ;;
                ' doctor check') path="$path $word" ;;
                ' doctor snapshot') path="$path $word" ;;
                ' sessions') path="$path $word" ;;
                ' sessions list') path="$path $word" ;;
                ' sessions cleanup') path="$path $word" ;;
                ' sessions show') path="$path $word" ;;
                ' sessions tail') path="$path $word" ;;
                ' sessions export') path="$path $word" ;;
                ' sessions search') path="$path $word" ;;
                ' sessions archive') path="$path $word" ;;
                ' sessions unarchive') path="$path $word" ;;
                ' sessions pin') path="$path $word" ;;
                ' sessions unpin') path="$path $word" ;;
                ' sessions read') path="$path $word" ;;
                ' sessions unread') path="$path $word" ;;
                ' sessions delete') path="$path $word" ;;
                ' sessions undelete') path="$path $word" ;;
                ' sessions fork') path="$path $word" ;;
                ' archives') path="$path $word" ;;
                ' archives list') path="$path $word" ;;
                ' archives verify') path="$path $word" ;;
                ' archives prune') path="$path $word" ;;
                ' agents') path="$path $word" ;;
                ' agents list') path="$path $word" ;;
                ' agents delete') path="$path $word" ;;
                ' scan-lifecycles') path="$path $word" ;;
                ' compact') path="$path $word" ;;
                ' demo') path="$path $word" ;;
                ' config') path="$path $word" ;;
                ' config show') path="$path $word" ;;
                ' completion') path="$path $word" ;;
                ' man') path="$path $word" ;;
            esac ;;
        esac
    done
    COMPREPLY=()
    case "$previous" in
        --active) COMPREPLY=(); return ;;
        --active-key) COMPREPLY=(); return ;;
        --agent) COMPREPLY=(); return ;;
        --archive-dir) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --archive-grace) COMPREPLY=(); return ;;
        --archived) COMPREPLY=($(compgen -W "hide include only" -- "$current")); return ;;
        --card-tokens) COMPREPLY=(); return ;;
        --config) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --cron-retention) COMPREPLY=($(compgen -W "TIME off" -- "$current")); return ;;
        --export-readable) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --file) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --format) COMPREPLY=($(compgen -W "jsonl markdown" -- "$current")); return ;;
        --gateway) COMPREPLY=($(compgen -W "auto never require" -- "$current")); return ;;
        --high-water) COMPREPLY=(); return ;;
        --keep-last) COMPREPLY=(); return ;;
        --key) COMPREPLY=(); return ;;
        --key-glob) COMPREPLY=(); return ;;
        --kind) COMPREPLY=(); return ;;
        --labels) COMPREPLY=($(compgen -W "auto de en" -- "$current")); return ;;
        --limit) COMPREPLY=(); return ;;
        --lines) COMPREPLY=(); return ;;
        --max-bytes) COMPREPLY=(); return ;;
        --max-disk) COMPREPLY=(); return ;;
        --max-entries) COMPREPLY=(); return ;;
        --max-line) COMPREPLY=(); return ;;
        --min-bytes) COMPREPLY=(); return ;;
        --now) COMPREPLY=(); return ;;
        --older-than) COMPREPLY=(); return ;;
        --output) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --password-file) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --prune-after) COMPREPLY=(); return ;;
        --snapshot) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --state-dir) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --store) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --timeout) COMPREPLY=(); return ;;
        --token-file) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --top) COMPREPLY=(); return ;;
        --url) COMPREPLY=(); return ;;
        --wait) COMPREPLY=(); return ;;
        -n) COMPREPLY=(); return ;;
        -o) COMPREPLY=($(compgen -f -- "$current")); return ;;
    esac
    case "$path" in
        "") COMPREPLY=($(compgen -W "doctor sessions archives agents scan-lifecycles compact demo config completion man -h --help" -- "$current")) ;;
        ' doctor') COMPREPLY=($(compgen -W "inspect dry-run import validate restore recover compact fix check snapshot -h --help" -- "$current")) ;;
        ' doctor inspect') COMPREPLY=($(compgen -W "--top --file --max-line --state-dir --config --store --agent --all-agents --local --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' doctor dry-run') COMPREPLY=($(compgen -W "--max-line --skip-empty --prefer-index --rebuild-index --salvage --state-dir --config --store --agent --all-agents --local --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' doctor import') COMPREPLY=($(compgen -W "--max-line --skip-empty --prefer-index --rebuild-index --salvage --keep-index --assume-stopped --allow-owner --github-issue --state-dir --config --store --agent --all-agents --local --dry-run --wait --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' doctor validate') COMPREPLY=($(compgen -W "--max-line --state-dir --config --store --agent --all-agents --local --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' doctor restore') COMPREPLY=($(compgen -W "--assume-stopped --allow-owner --github-issue --state-dir --config --store --agent --all-agents --local --dry-run --wait --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' doctor recover') COMPREPLY=($(compgen -W "--export-readable --max-line --salvage --assume-stopped --allow-owner --github-issue --snapshot --state-dir --config --store --agent --all-agents --local --dry-run --wait --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' doctor compact') COMPREPLY=($(compgen -W "--assume-stopped --allow-owner --snapshot --state-dir --config --store --agent --all-agents --local --dry-run --wait --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' doctor fix') COMPREPLY=($(compgen -W "--max-line --salvage --assume-stopped --allow-owner --github-issue --snapshot --state-dir --config --store --agent --all-agents --local --dry-run --wait --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' doctor check') COMPREPLY=($(compgen -W "--state-dir --config --store --agent --all-agents --local --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' doctor snapshot') COMPREPLY=($(compgen -W "--verify --state-dir --config --local --dry-run --now --json -q --quiet -v --verbose --debug -h --help" -- "$current") $(compgen -f -- "$current")) ;;
        ' sessions') COMPREPLY=($(compgen -W "list cleanup show tail export search archive unarchive pin unpin read unread delete undelete fork --limit --active --archived --generations --state-dir --config --store --agent --all-agents --local --now --json --ndjson -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' sessions list') COMPREPLY=($(compgen -W "--limit --active --archived --generations --state-dir --config --store --agent --all-agents --local --now --json --ndjson -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' sessions cleanup') COMPREPLY=($(compgen -W "--enforce --active-key --fix-missing --fix-dm-scope --force --include-stale-running --older-than --kind --key-glob --min-bytes --keep-last --limit --max-entries --prune-after --cron-retention --max-disk --high-water --archive-dir --archive-grace --vacuum --exit-code --assume-stopped --allow-owner --state-dir --config --store --agent --all-agents --local --dry-run --wait --now --json --ndjson -q --quiet -v --verbose --debug --gateway --url --token-file --password-file --timeout --force-local -h --help" -- "$current")) ;;
        ' sessions show') COMPREPLY=($(compgen -W "KEY ID --lines -n --max-bytes --all --state-dir --config --store --agent --local --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' sessions tail') COMPREPLY=($(compgen -W "KEY ID --lines -n --max-bytes --follow -f --all --state-dir --config --store --agent --local --now --json --ndjson -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' sessions export') COMPREPLY=($(compgen -W "KEY ID ARCHIVE... --format --output -o --generations --redact --all --state-dir --config --store --agent --local --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' sessions search') COMPREPLY=($(compgen -W "--key --archives --limit --state-dir --config --store --agent --all-agents --local --now --json --ndjson -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' sessions archive') COMPREPLY=($(compgen -W "--assume-stopped --allow-owner --state-dir --config --store --agent --local --dry-run --wait --now --json -q --quiet -v --verbose --debug --gateway --url --token-file --password-file --timeout --force-local -h --help" -- "$current")) ;;
        ' sessions unarchive') COMPREPLY=($(compgen -W "--assume-stopped --allow-owner --state-dir --config --store --agent --local --dry-run --wait --now --json -q --quiet -v --verbose --debug --gateway --url --token-file --password-file --timeout --force-local -h --help" -- "$current")) ;;
        ' sessions pin') COMPREPLY=($(compgen -W "--assume-stopped --allow-owner --state-dir --config --store --agent --local --dry-run --wait --now --json -q --quiet -v --verbose --debug --gateway --url --token-file --password-file --timeout --force-local -h --help" -- "$current")) ;;
        ' sessions unpin') COMPREPLY=($(compgen -W "--assume-stopped --allow-owner --state-dir --config --store --agent --local --dry-run --wait --now --json -q --quiet -v --verbose --debug --gateway --url --token-file --password-file --timeout --force-local -h --help" -- "$current")) ;;
        ' sessions read') COMPREPLY=($(compgen -W "--assume-stopped --allow-owner --state-dir --config --store --agent --local --dry-run --wait --now --json -q --quiet -v --verbose --debug --gateway --url --token-file --password-file --timeout --force-local -h --help" -- "$current")) ;;
        ' sessions unread') COMPREPLY=($(compgen -W "--assume-stopped --allow-owner --state-dir --config --store --agent --local --dry-run --wait --now --json -q --quiet -v --verbose --debug --gateway --url --token-file --password-file --timeout --force-local -h --help" -- "$current")) ;;
        ' sessions delete') COMPREPLY=($(compgen -W "--yes -y --force --archive-dir --assume-stopped --allow-owner --state-dir --config --store --agent --local --dry-run --wait --now --json -q --quiet -v --verbose --debug --gateway --url --token-file --password-file --timeout --force-local -h --help" -- "$current")) ;;
        ' sessions undelete') COMPREPLY=($(compgen -W "KEY ID ARCHIVE... --archive-dir --assume-stopped --allow-owner --state-dir --config --store --agent --local --dry-run --wait --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' sessions fork') COMPREPLY=($(compgen -W "--repair --assume-stopped --allow-owner --state-dir --config --store --agent --local --dry-run --wait --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' archives') COMPREPLY=($(compgen -W "list verify prune -h --help" -- "$current")) ;;
        ' archives list') COMPREPLY=($(compgen -W "KEY ID NAME]... --archive-dir --state-dir --config --store --agent --all-agents --local --now --json --ndjson -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' archives verify') COMPREPLY=($(compgen -W "KEY ID NAME]... --archive-dir --state-dir --config --store --agent --all-agents --local --now --json --ndjson -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' archives prune') COMPREPLY=($(compgen -W "KEY ID NAME]... --older-than --archive-grace --archive-dir --enforce --assume-stopped --allow-owner --state-dir --config --store --agent --all-agents --local --dry-run --wait --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' agents') COMPREPLY=($(compgen -W "list delete -h --help" -- "$current")) ;;
        ' agents list') COMPREPLY=($(compgen -W "--state-dir --config --local --now --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' agents delete') COMPREPLY=($(compgen -W "--yes -y --force --assume-stopped --allow-owner --state-dir --config --local --dry-run --wait --now --json -q --quiet -v --verbose --debug --gateway --url --token-file --password-file --timeout --force-local -h --help" -- "$current")) ;;
        ' scan-lifecycles') COMPREPLY=($(compgen -W "--no-tokens --keep-last --state-dir --config --json --ndjson -q --quiet -v --verbose --debug -h --help" -- "$current") $(compgen -f -- "$current")) ;;
        ' compact') COMPREPLY=($(compgen -W "-o --output --force --lifecycles --keep-last --card-tokens --labels --state-dir --config --dry-run --json -q --quiet -v --verbose --debug -h --help" -- "$current") $(compgen -f -- "$current")) ;;
        ' demo') COMPREPLY=($(compgen -W "--keep --json -q --quiet --debug -h --help" -- "$current")) ;;
        ' config') COMPREPLY=($(compgen -W "show -h --help" -- "$current")) ;;
        ' config show') COMPREPLY=($(compgen -W "--origin --state-dir --config --json -q --quiet -v --verbose --debug -h --help" -- "$current")) ;;
        ' completion') COMPREPLY=($(compgen -W "bash zsh fish --debug -h --help" -- "$current")) ;;
        ' man') COMPREPLY=($(compgen -W "doctor sessions archives agents scan-lifecycles compact demo config completion man --debug -h --help" -- "$current")) ;;
    esac
}
complete -o filenames -F _openclaw_cli openclaw-cli
