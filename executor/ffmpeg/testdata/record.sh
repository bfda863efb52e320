#!/usr/bin/env bash
# Records what one ffmpeg says and how it ends in every case of the error
# tables: recordings/<version>/<case>.txt, first line "exit <code>".
#
#   record.sh /path/to/ffmpeg 7.1
#
# Addresses are cut, so that a second run gives the same text. The disk-full
# case needs the right to mount a tmpfs and is left out without it.
set -u
ffmpeg=$1
cd "$(dirname "$0")"
out=recordings/$2
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
media=media
common="-hide_banner -nostdin -nostats -y -v level+warning"

record() { # name, arguments
	local name=$1
	shift
	"$ffmpeg" $common "$@" >/dev/null 2>"$work/err"
	local code=$?
	{
		echo "exit $code"
		sed -E "s/ @ 0x[0-9a-f]+\]/]/g; s#$work#/out#g" "$work/err" | head -40
	} >"$out/$name.txt"
}

x264="-c:v libx264 -preset ultrafast"
record input_missing -i "$work/nope.mp4" -f null -
record output_folder_missing -i $media/good.mp4 -c copy "$work/no/such/o.mp4"
record not_media -i $media/text_as.mp4 -f null -
record empty -i $media/zero_byte.mp4 -f null -
record truncated_no_moov -i $media/truncated_no_moov.mp4 -f null -
record playlist -protocol_whitelist file,pipe -i $media/playlist_as.mp4 -f null -
record unknown_encoder -i $media/good.mp4 -c:v nosuch -f null -
record unknown_option -i $media/good.mp4 -nosuchoption 1 -f null -
record unknown_filter -i $media/good.mp4 -vf nosuch -f null -
record bad_filter_arguments -i $media/good.mp4 -vf scale=w=bogus:h=1 -f null -
record bad_preset -i $media/good.mp4 -an -c:v libx264 -preset bogus -f null -
record no_video_stream -i $media/audio_only.m4a -map 0:V -c:v libx264 -f null -
record odd_size -i $media/odd_dimensions.mp4 -pix_fmt yuv420p $x264 -f null -
record codec_not_in_container -i $media/good.mp4 -c copy "$work/o.webm"
record unknown_suffix -i $media/good.mp4 -c copy "$work/o.part"
record connection_refused -i http://127.0.0.1:9/a.mp4 -f null -
record name_not_resolved -i http://no-such-host.invalid/a.mp4 -f null -
record nvenc_no_driver -f lavfi -i testsrc2=s=256x256:r=12:d=0.5 -c:v h264_nvenc -f null -
record hwaccel_cuda_no_device -hwaccel cuda -i $media/good.mp4 -f null -
record vaapi_no_device -vaapi_device /dev/dri/renderD128 -f lavfi -i testsrc2=s=256x256:r=12:d=0.5 -vf format=nv12,hwupload -c:v h264_vaapi -f null -
record qsv_no_device -f lavfi -i testsrc2=s=256x256:r=12:d=0.5 -pix_fmt nv12 -c:v h264_qsv -f null -
record corrupt_middle -i $media/corrupt_middle.mp4 -map 0:V:0 -map 0:a:0? $x264 -c:a aac -f mp4 "$work/c.mp4"
record truncated_with_moov -i $media/truncated_with_moov.mp4 -map 0:V:0 -map 0:a:0? $x264 -c:a aac -f mp4 "$work/t.mp4"
record good -i $media/good.mp4 -map 0:V:0 -map 0:a:0? $x264 -c:a aac -f mp4 "$work/g.mp4"
mkdir -p "$work/full"
if mount -t tmpfs -o size=16k none "$work/full" 2>/dev/null; then
	record no_space -i $media/good.mp4 $x264 -c:a aac -f mp4 "$work/full/o.mp4"
	umount "$work/full"
	mount -t tmpfs -o size=64k none "$work/full"
	record no_space_ts -f lavfi -i testsrc2=s=320x240:r=25:d=4 $x264 -f mpegts "$work/full/o.ts"
	umount "$work/full"
fi
"$ffmpeg" $common -re -f lavfi -i testsrc2=s=96x64:r=12:d=30 $x264 -f null - >/dev/null 2>"$work/err" &
pid=$!
sleep 1
kill -TERM $pid
wait $pid
{ echo "exit $?"; cat "$work/err"; } >"$out/sigterm.txt"
