#!/usr/bin/env bash
# Fills an inbox with synthetic films and orders, some of them broken. What is
# there already is left alone; what is made again has the same bytes.
set -euo pipefail

inbox=${1:?usage: make_clips.sh INBOX}
mkdir -p "$inbox"
work=$(mktemp -d "$inbox/.making.XXXXXX")
trap 'rm -rf "$work"' EXIT

# One thread and no time stamps: the same bytes each time.
exact=(-threads 1 -fflags +bitexact -flags:v +bitexact -flags:a +bitexact -map_metadata -1)
ffmpeg=(ffmpeg -v error -nostdin -y)

# film NAME SIZE SECONDS [OPTION...]
film() {
	local name=$1 size=$2 seconds=$3
	shift 3
	"${ffmpeg[@]}" \
		-f lavfi -i "testsrc2=size=$size:rate=25:duration=$seconds" \
		-f lavfi -i "sine=frequency=440:sample_rate=48000:duration=$seconds" \
		-c:v libx264 -preset ultrafast -crf 23 -g 50 -pix_fmt yuv420p -c:a aac -b:a 96k "${exact[@]}" "$@" "$work/$name"
}

# keep NAME moves a finished file into the inbox, whole.
keep() { mv "$work/$1" "$inbox/$1"; }

# missing NAME... is true when one of the files is not in the inbox.
missing() {
	local name
	for name in "$@"; do [ -e "$inbox/$name" ] || return 0; done
	return 1
}

if missing good.mp4; then # a few seconds of work for the encoder
	film good.mp4 1280x720 8
	keep good.mp4
fi

if missing trailer.mp4 truncated.mp4 damaged.mp4; then
	film trailer.mp4 640x360 6 -movflags +faststart
	# The first half of it, with the index of the whole at the front: ffmpeg
	# encodes that without complaint.
	size=$(wc -c <"$work/trailer.mp4")
	head -c $((size / 2)) "$work/trailer.mp4" >"$work/truncated.mp4"
	# The whole of it with noise in the middle: ffmpeg ends with 0, too.
	film damaged.mp4 320x180 4 -movflags +faststart
	size=$(wc -c <"$work/damaged.mp4")
	head -c 6000 /dev/zero | tr '\0' 'U' |
		dd of="$work/damaged.mp4" bs=1 seek=$((size / 2)) conv=notrunc status=none
	for name in trailer.mp4 truncated.mp4 damaged.mp4; do keep "$name"; done
fi

if missing audio_only.mp4; then # sound under a film's name
	"${ffmpeg[@]}" -f lavfi -i "sine=frequency=330:sample_rate=48000:duration=4" \
		-c:a aac -b:a 96k "${exact[@]}" "$work/audio_only.mp4"
	keep audio_only.mp4
fi

if missing empty.mp4; then # an upload that has not begun
	: >"$work/empty.mp4"
	keep empty.mp4
fi

if missing orders-2025-11.csv; then # forty good rows, and five that can never be loaded
	{
		echo "order_id,order_date,customer,amount,status,modified_at"
		for i in $(seq 1 40); do
			printf '%d,2025-11-%02d,"Customer %d, Ltd",%d.%02d,%s,2025-11-%02dT%02d:%02d:00Z\n' \
				$((1000 + i)) $((i % 28 + 1)) "$i" $((i * 13 % 500)) $((i * 7 % 100)) \
				"$(case $((i % 3)) in 0) echo new ;; 1) echo paid ;; *) echo sent ;; esac)" \
				$((i % 28 + 1)) $((i % 24)) $((i % 60))
		done
		echo '1001,2025-11-02,"Customer 1, Ltd",99.90,sent,2025-11-29T10:00:00Z' # a newer version of the first
		echo '2001,2025-02-30,Bad Date,10.00,new,2025-11-20T08:00:00Z'
		echo '2002,2025-11-20,Negative Amount,-4.00,new,2025-11-20T08:01:00Z'
		echo '2003,2025-11-20,Broken Number,12abc,new,2025-11-20T08:02:00Z'
		echo ',2025-11-20,Missing Key,10.00,new,2025-11-20T08:03:00Z'
		echo '2005,2025-11-20,Unknown Status,10.00,lost,2025-11-20T08:04:00Z'
	} >"$work/orders-2025-11.csv"
	keep orders-2025-11.csv
fi

ls -l "$inbox"
