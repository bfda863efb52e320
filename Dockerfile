# syntax=docker/dockerfile:1

# The build: one static binary.
FROM golang:1.26 AS build
ARG VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/airlock ./cmd/airlock

# The image: the binary, and what the media and python steps run.
FROM debian:trixie-slim
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates ffmpeg python3 tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --create-home --home-dir /var/lib/airlock airlock \
 && install -d -o airlock -g airlock /var/lib/airlock/dags
COPY --from=build /out/airlock /usr/local/bin/airlock
COPY --chown=airlock:airlock examples /usr/share/airlock/examples

USER airlock
ENV AIRLOCK_HOME=/var/lib/airlock
# Where the host gives the container NVIDIA cards (docker run --gpus all): what
# the transcode step needs of the driver. Without them it changes nothing.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,video,utility
WORKDIR /var/lib/airlock
VOLUME /var/lib/airlock

# The check opens the state database and asks whether its schema is this
# binary's: it fails when the database is away or older than the binary.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s CMD ["airlock", "db", "migrate", "--check"]

# tini passes signals on and reaps what steps leave behind.
ENTRYPOINT ["tini", "--", "airlock"]
CMD ["standalone"]
