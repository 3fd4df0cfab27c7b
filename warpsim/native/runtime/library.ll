; What regions call. `library.py` makes a module for each `ws_NAME_8_2` that a region declares: the function NAME for the constants
; 8 and 2 in place of its last parameters, with all that it calls. Arrays of lanes have 32 elements; of several elements a lane,
; those of all lanes come side by side. `%range` is where the least address and the end of an access are kept (or null).
; Status: 0, or 1 (BAD_ACCESS) or 2 (LOG_FULL).

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @llvm.cttz.i32(i32, i1)
declare i64 @llvm.cttz.i64(i64, i1)
declare i32 @llvm.ctpop.i32(i32)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.vector.reduce.smin.v32i64(<32 x i64>)
declare i64 @llvm.vector.reduce.smax.v32i64(<32 x i64>)
declare i64 @llvm.vector.reduce.or.v32i64(<32 x i64>)
declare i32 @llvm.vector.reduce.umin.v32i32(<32 x i32>)
declare i32 @llvm.vector.reduce.umax.v32i32(<32 x i32>)
declare i32 @llvm.vector.reduce.or.v32i32(<32 x i32>)
declare i64 @llvm.vector.reduce.and.v8i64(<8 x i64>)
declare void @llvm.set.rounding(i32)
declare <32 x float> @llvm.experimental.constrained.fdiv.v32f32(<32 x float>, <32 x float>, metadata, metadata)
declare <32 x float> @llvm.experimental.constrained.fma.v32f32(<32 x float>, <32 x float>, <32 x float>, metadata, metadata)

; ---- lanes ---------------------------------------------------------------------------------------

define internal i64 @first(i32 %lanes) alwaysinline {
  %number = call i32 @llvm.cttz.i32(i32 %lanes, i1 true)
  %i = zext i32 %number to i64
  ret i64 %i
}

define internal i32 @others(i32 %lanes) alwaysinline {
  %less = sub i32 %lanes, 1
  %rest = and i32 %lanes, %less
  ret i32 %rest
}

define internal i64 @word(ptr %words, i64 %i) alwaysinline {
  %p = getelementptr i64, ptr %words, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}

define internal i64 @index(ptr %indices, i64 %i) alwaysinline {
  %p = getelementptr i32, ptr %indices, i64 %i
  %v = load i32, ptr %p
  %wide = sext i32 %v to i64
  ret i64 %wide
}

; Byte `%at` of what lane `%i` has in an array of lanes.
define internal ptr @lane(ptr %values, i64 %i, i64 %at, i64 %size) alwaysinline {
  %k = udiv i64 %at, %size
  %rest = urem i64 %at, %size
  %row = shl i64 %k, 5
  %number = add i64 %row, %i
  %start = mul i64 %number, %size
  %offset = add i64 %start, %rest
  %p = getelementptr i8, ptr %values, i64 %offset
  ret ptr %p
}

define internal void @copy(ptr %to, ptr %from, i64 %size) alwaysinline {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  ret void
}

; A lane's elements from memory, or into memory if `%out`.
define internal void @move(ptr %values, i64 %i, ptr %p, i64 %size, i64 %count, i1 %out) alwaysinline {
entry:
  %total = mul i64 %size, %count
  br label %loop
loop:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
  %q = getelementptr i8, ptr %p, i64 %at
  %e = call ptr @lane(ptr %values, i64 %i, i64 %at, i64 %size)
  %to = select i1 %out, ptr %q, ptr %e
  %from = select i1 %out, ptr %e, ptr %q
  call void @copy(ptr %to, ptr %from, i64 %size)
  %next = add i64 %at, %size
  %done = icmp eq i64 %next, %total
  br i1 %done, label %end, label %loop
end:
  ret void
}

define internal void @table(ptr %table, ptr %indices, ptr %out, i64 %size) alwaysinline {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = call i64 @word(ptr %indices, i64 %i)
  %offset = mul i64 %at, %size
  %p = getelementptr i8, ptr %table, i64 %offset
  call void @move(ptr %out, i64 %i, ptr %p, i64 %size, i64 1, i1 false)
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %end, label %loop
end:
  ret void
}

define internal void @permute(ptr %values, ptr %indices, ptr %out, i64 %size) alwaysinline {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = call i64 @index(ptr %indices, i64 %i)
  %p = call ptr @lane(ptr %values, i64 %at, i64 0, i64 %size)
  call void @move(ptr %out, i64 %i, ptr %p, i64 %size, i64 1, i1 false)
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %end, label %loop
end:
  ret void
}

; The values of lanes in rows: from the first on by a stride along the row, and by another from row to row.
define internal void @spread(ptr %out, i64 %first, i64 %x, i64 %y, i64 %row, i64 %cut) alwaysinline {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %column = phi i64 [ 0, %entry ], [ %c, %loop ]
  %start = phi i64 [ %first, %entry ], [ %s, %loop ]
  %along = mul i64 %column, %x
  %v = add i64 %start, %along
  %cutv = and i64 %v, %cut
  %po = getelementptr i64, ptr %out, i64 %i
  store i64 %cutv, ptr %po
  %c1 = add i64 %column, 1
  %full = icmp eq i64 %c1, %row
  %c = select i1 %full, i64 0, i64 %c1
  %down = add i64 %start, %y
  %s = select i1 %full, i64 %down, i64 %start
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %end, label %loop
end:
  ret void
}

; ---- directed rounding: LLVM's numbers of modes, of which 1 is to nearest; double as float ----------

define internal void @ws_fdiv_float(ptr %a, ptr %b, ptr %out, i32 %mode) strictfp {
  %va = load <32 x float>, ptr %a, align 64
  %vb = load <32 x float>, ptr %b, align 64
  call void @llvm.set.rounding(i32 %mode) strictfp
  %r = call <32 x float> @llvm.experimental.constrained.fdiv.v32f32(<32 x float> %va, <32 x float> %vb, metadata !"round.dynamic", metadata !"fpexcept.strict") strictfp
  call void @llvm.set.rounding(i32 1) strictfp
  store <32 x float> %r, ptr %out, align 64
  ret void
}

define internal void @ws_fma_float(ptr %a, ptr %b, ptr %c, ptr %out, i32 %mode) strictfp {
  %va = load <32 x float>, ptr %a, align 64
  %vb = load <32 x float>, ptr %b, align 64
  %vc = load <32 x float>, ptr %c, align 64
  call void @llvm.set.rounding(i32 %mode) strictfp
  %r = call <32 x float> @llvm.experimental.constrained.fma.v32f32(<32 x float> %va, <32 x float> %vb, <32 x float> %vc, metadata !"round.dynamic", metadata !"fpexcept.strict") strictfp
  call void @llvm.set.rounding(i32 1) strictfp
  store <32 x float> %r, ptr %out, align 64
  ret void
}

; ---- registers -----------------------------------------------------------------------------------
; A descriptor is {base, strides t1, t0, c1, c0, mode}: mode 0 is an affine value, 1 an array whose lanes are consecutive where
; those of the row are, 2 any array (strides in bytes).

; What a CTA adds to the base.
define internal i64 @cta(ptr %ctx, ptr %d, i32 %c) alwaysinline {
  %number = sext i32 %c to i64
  %c1s = call ptr @ctx.c1(ptr %ctx)
  %c0s = call ptr @ctx.c0(ptr %ctx)
  %c1 = call i64 @index(ptr %c1s, i64 %number)
  %c0 = call i64 @index(ptr %c0s, i64 %number)
  %s1 = call i64 @word(ptr %d, i64 3)
  %s0 = call i64 @word(ptr %d, i64 4)
  %m1 = mul i64 %c1, %s1
  %m0 = mul i64 %c0, %s0
  %m = add i64 %m1, %m0
  %base = call i64 @word(ptr %d, i64 0)
  %all = add i64 %m, %base
  ret i64 %all
}

; What a lane adds to that.
define internal i64 @thread(ptr %ctx, ptr %d, i32 %row, i64 %i) alwaysinline {
  %wide = sext i32 %row to i64
  %first = shl i64 %wide, 5
  %number = add i64 %first, %i
  %t1s = call ptr @ctx.t1(ptr %ctx)
  %t0s = call ptr @ctx.t0(ptr %ctx)
  %t1 = call i64 @index(ptr %t1s, i64 %number)
  %t0 = call i64 @index(ptr %t0s, i64 %number)
  %s1 = call i64 @word(ptr %d, i64 1)
  %s0 = call i64 @word(ptr %d, i64 2)
  %m1 = mul i64 %t1, %s1
  %m0 = mul i64 %t0, %s0
  %m = add i64 %m1, %m0
  ret i64 %m
}

; Where the 32 elements of a warp lie side by side; null where they do not.
define internal ptr @in_a_row(ptr %ctx, ptr %d, i32 %row, i64 %cta, i64 %size) alwaysinline {
  %wide = sext i32 %row to i64
  %flats = call ptr @ctx.flat(ptr %ctx)
  %flat = call i64 @index(ptr %flats, i64 %wide)
  %mode = call i64 @word(ptr %d, i64 5)
  %linear = icmp sge i64 %flat, 0
  %array = icmp eq i64 %mode, 1
  %both = and i1 %linear, %array
  %offset = mul i64 %flat, %size
  %place = add i64 %cta, %offset
  %p = inttoptr i64 %place to ptr
  %found = select i1 %both, ptr %p, ptr null
  ret ptr %found
}

; A register from an array or an affine value.
define internal void @live(ptr %ctx, ptr %d, i32 %row, i32 %c, ptr %out, i64 %size) alwaysinline {
entry:
  %value = alloca i64
  %cta = call i64 @cta(ptr %ctx, ptr %d, i32 %c)
  %vector = call ptr @in_a_row(ptr %ctx, ptr %d, i32 %row, i64 %cta, i64 %size)
  %apart = icmp eq ptr %vector, null
  br i1 %apart, label %other, label %together
together:
  %whole = mul i64 %size, 32
  call void @copy(ptr %out, ptr %vector, i64 %whole)
  ret void
other:
  %mode = call i64 @word(ptr %d, i64 5)
  %affine = icmp eq i64 %mode, 0
  br label %loop
loop:
  %i = phi i64 [ 0, %other ], [ %next, %loop ]
  %m = call i64 @thread(ptr %ctx, ptr %d, i32 %row, i64 %i)
  %o = add i64 %m, %cta
  store i64 %o, ptr %value
  %q = inttoptr i64 %o to ptr
  %p = select i1 %affine, ptr %value, ptr %q
  call void @move(ptr %out, i64 %i, ptr %p, i64 %size, i64 1, i1 false)
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %end, label %loop
end:
  ret void
}

; A register into an array.
define internal void @out(ptr %ctx, ptr %d, i32 %row, i32 %c, i32 %mask, ptr %in, i64 %size) alwaysinline {
entry:
  %cta = call i64 @cta(ptr %ctx, ptr %d, i32 %c)
  %vector = call ptr @in_a_row(ptr %ctx, ptr %d, i32 %row, i64 %cta, i64 %size)
  %whole = icmp ne ptr %vector, null
  %full = icmp eq i32 %mask, -1
  %fast = and i1 %whole, %full
  br i1 %fast, label %together, label %loop
together:
  %all = mul i64 %size, 32
  call void @copy(ptr %vector, ptr %in, i64 %all)
  ret void
loop:
  %left = phi i32 [ %mask, %entry ], [ %fewer, %step ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %end, label %step
step:
  %i = call i64 @first(i32 %left)
  %fewer = call i32 @others(i32 %left)
  %m = call i64 @thread(ptr %ctx, ptr %d, i32 %row, i64 %i)
  %o = add i64 %m, %cta
  %p = inttoptr i64 %o to ptr
  call void @move(ptr %in, i64 %i, ptr %p, i64 %size, i64 1, i1 true)
  br label %loop
end:
  ret void
}

; ---- the log of stores ---------------------------------------------------------------------------
; Entries: what was there (in whole words), the address, the number of bytes; walked from the end.

define internal i32 @ws_log(ptr %ctx, i64 %address, i64 %nbytes) {
entry:
  %log = call ptr @ctx.log(ptr %ctx)
  %size_word = call ptr @at.log_size(ptr %ctx)
  %size = load i64, ptr %size_word
  %used_word = call ptr @at.log_used(ptr %ctx)
  %used = load i64, ptr %used_word
  %up = add i64 %nbytes, 7
  %payload = and i64 %up, -8
  %more = add i64 %payload, 16
  %after = add i64 %used, %more
  %over = icmp ugt i64 %after, %size
  br i1 %over, label %full, label %fits
full:
  ret i32 2
fits:
  %to = getelementptr i8, ptr %log, i64 %used
  %from = inttoptr i64 %address to ptr
  switch i64 %nbytes, label %many [ i64 4, label %four
                                    i64 8, label %eight ]
four:
  call void @copy(ptr %to, ptr %from, i64 4)
  br label %head
eight:
  call void @copy(ptr %to, ptr %from, i64 8)
  br label %head
many:
  call void @copy(ptr %to, ptr %from, i64 %nbytes)
  br label %head
head:
  %h1 = getelementptr i8, ptr %to, i64 %payload
  store i64 %address, ptr %h1, align 8
  %h2 = getelementptr i8, ptr %h1, i64 8
  store i64 %nbytes, ptr %h2, align 8
  store i64 %after, ptr %used_word
  ret i32 0
}

; Logs a few bytes of every lane's, and changes them.
define internal i32 @overwrite(ptr %ctx, ptr %p, ptr %new, i64 %nbytes) alwaysinline {
entry:
  %address = ptrtoint ptr %p to i64
  %status = call i32 @ws_log(ptr %ctx, i64 %address, i64 %nbytes)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %full, label %fits
full:
  ret i32 2
fits:
  call void @copy(ptr %p, ptr %new, i64 %nbytes)
  ret i32 0
}

; Walks the entries that begin between two addresses of the host. `%what` 0: takes back what they have changed. 1: sets a mark for
; each byte. 2: the same, and 1 where none had one before.
define internal i32 @walk(ptr %ctx, i64 %first, i64 %last, ptr %marks, i64 %what) alwaysinline {
entry:
  %log = call ptr @ctx.log(ptr %ctx)
  %used_word = call ptr @at.log_used(ptr %ctx)
  %used_at_all = load i64, ptr %used_word
  br label %test
test:
  %used = phi i64 [ %used_at_all, %entry ], [ %before, %next ]
  %done = icmp eq i64 %used, 0
  br i1 %done, label %end, label %look
look:
  %at = getelementptr i8, ptr %log, i64 %used
  %nbytes = call i64 @word(ptr %at, i64 -1)
  %address = call i64 @word(ptr %at, i64 -2)
  %up = add i64 %nbytes, 7
  %payload = and i64 %up, -8
  %more = add i64 %payload, 16
  %before = sub i64 %used, %more
  %place = sub i64 %address, %first
  %mark = getelementptr i8, ptr %marks, i64 %place
  %behind = icmp sge i64 %address, %first
  %ahead = icmp slt i64 %address, %last
  %here = and i1 %behind, %ahead
  %is_rollback = icmp eq i64 %what, 0
  br i1 %is_rollback, label %back, label %chosen
back:
  %from = getelementptr i8, ptr %log, i64 %before
  %to = inttoptr i64 %address to ptr
  call void @copy(ptr %to, ptr %from, i64 %nbytes)
  br label %next
chosen:
  br i1 %here, label %marked, label %next
marked:
  %is_distinct = icmp eq i64 %what, 2
  br i1 %is_distinct, label %byte, label %set
byte:
  %k = phi i64 [ 0, %marked ], [ %k1, %new ]
  %p = getelementptr i8, ptr %mark, i64 %k
  %old = load i8, ptr %p
  %twice = icmp ne i8 %old, 0
  br i1 %twice, label %bad, label %new
new:
  %k1 = add i64 %k, 1
  %over = icmp eq i64 %k1, %nbytes
  br i1 %over, label %set, label %byte
set:
  switch i64 %nbytes, label %many [ i64 4, label %four
                                    i64 8, label %eight ]
four:
  store i32 16843009, ptr %mark, align 1
  br label %next
eight:
  store i64 72340172838076673, ptr %mark, align 1
  br label %next
many:
  call void @llvm.memset.p0.i64(ptr %mark, i8 1, i64 %nbytes, i1 false)
  br label %next
next:
  br label %test
bad:
  ret i32 0
end:
  ret i32 1
}

define internal i32 @ws_rollback(ptr %ctx) {
  %status = call i32 @walk(ptr %ctx, i64 0, i64 0, ptr null, i64 0)
  %used = call ptr @at.log_used(ptr %ctx)
  store i64 0, ptr %used
  ret i32 0
}

; ---- where addresses lie -------------------------------------------------------------------------

define internal i32 @extent(i64 %low, i64 %end, i64 %odd, i64 %nbytes, ptr %range) alwaysinline {
entry:
  %below = sub i64 %nbytes, 1
  %rest = and i64 %odd, %below
  %bad = icmp ne i64 %rest, 0
  br i1 %bad, label %fail, label %good
fail:
  ret i32 1
good:
  %none = icmp eq ptr %range, null
  br i1 %none, label %done, label %record
record:
  %old_low = call i64 @word(ptr %range, i64 0)
  %new_low = call i64 @llvm.smin.i64(i64 %old_low, i64 %low)
  store i64 %new_low, ptr %range
  %old_end = call i64 @word(ptr %range, i64 1)
  %new_end = call i64 @llvm.smax.i64(i64 %old_end, i64 %end)
  %p = getelementptr i64, ptr %range, i64 1
  store i64 %new_end, ptr %p
  br label %done
done:
  ret i32 0
}

; The allocation that holds `%nbytes` of every lane: {start, end, the host's bytes, marks of what is written or 0, read only}; null
; where there is none, or an address is not aligned.
define internal ptr @found(ptr %ctx, ptr %addresses, i32 %mask, i64 %nbytes, ptr %range) alwaysinline {
entry:
  %a = load <32 x i64>, ptr %addresses, align 64
  %m = bitcast i32 %mask to <32 x i1>
  %lows = select <32 x i1> %m, <32 x i64> %a, <32 x i64> splat (i64 9223372036854775807)
  %highs = select <32 x i1> %m, <32 x i64> %a, <32 x i64> splat (i64 -9223372036854775808)
  %odds = select <32 x i1> %m, <32 x i64> %a, <32 x i64> zeroinitializer
  %low = call i64 @llvm.vector.reduce.smin.v32i64(<32 x i64> %lows)
  %high = call i64 @llvm.vector.reduce.smax.v32i64(<32 x i64> %highs)
  %odd = call i64 @llvm.vector.reduce.or.v32i64(<32 x i64> %odds)
  %end = add i64 %high, %nbytes
  %status = call i32 @extent(i64 %low, i64 %end, i64 %odd, i64 %nbytes, ptr %range)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %none, label %good
none:
  ret ptr null
good:
  %where = call ptr @allocation(ptr %ctx, i64 %low, i64 %end)
  ret ptr %where
}

define internal i1 @holds(ptr %allocation, i64 %low, i64 %end) alwaysinline {
  %start = call i64 @word(ptr %allocation, i64 0)
  %stop = call i64 @word(ptr %allocation, i64 1)
  %behind = icmp sge i64 %low, %start
  %ahead = icmp sle i64 %end, %stop
  %in = and i1 %behind, %ahead
  ret i1 %in
}

; The last one that was found is looked at first.
define internal ptr @allocation(ptr %ctx, i64 %low, i64 %end) alwaysinline {
entry:
  %memo = call ptr @ctx.memo(ptr %ctx)
  %again = call i1 @holds(ptr %memo, i64 %low, i64 %end)
  br i1 %again, label %hit, label %search
hit:
  ret ptr %memo
search:
  %count_word = call ptr @at.n_allocations(ptr %ctx)
  %count = load i64, ptr %count_word
  %all = call ptr @ctx.allocations(ptr %ctx)
  br label %loop
loop:
  %k = phi i64 [ 0, %search ], [ %next, %step ]
  %stop = icmp eq i64 %k, %count
  br i1 %stop, label %none, label %look
look:
  %offset = mul i64 %k, 40
  %one = getelementptr i8, ptr %all, i64 %offset
  %in = call i1 @holds(ptr %one, i64 %low, i64 %end)
  br i1 %in, label %found, label %step
step:
  %next = add i64 %k, 1
  br label %loop
found:
  %memo_word = call ptr @at.memo(ptr %ctx)
  store ptr %one, ptr %memo_word
  ret ptr %one
none:
  ret ptr null
}

; Where a row of `%nbytes` may begin in the allocation that holds one: its start, how many places of `1 << %shift` bytes, and how far
; away its bytes lie. Nothing changes where no row can be accessed without a closer look.
define internal void @ws_memo(ptr %ctx, ptr %memo, i64 %low, i64 %nbytes, i64 %shift, i64 %store) {
entry:
  %end = add i64 %low, %nbytes
  %where = call ptr @allocation(ptr %ctx, i64 %low, i64 %end)
  %lost = icmp eq ptr %where, null
  br i1 %lost, label %none, label %found
found:
  %start = call i64 @word(ptr %where, i64 0)
  %stop = call i64 @word(ptr %where, i64 1)
  %data = call i64 @word(ptr %where, i64 2)
  %written = call i64 @word(ptr %where, i64 3)
  %locked = call i64 @word(ptr %where, i64 4)
  %tracked = icmp ne i64 %written, 0
  %lock = and i64 %locked, %store
  %closed = icmp ne i64 %lock, 0
  %ones = shl i64 -1, %shift
  %odds = xor i64 %ones, -1
  %rest = and i64 %start, %odds
  %odd = icmp ne i64 %rest, 0
  %unusable = or i1 %tracked, %closed
  %bad = or i1 %unusable, %odd
  br i1 %bad, label %none, label %good
good:
  %size = sub i64 %stop, %start
  %last_start = sub i64 %size, %nbytes
  %places = lshr i64 %last_start, %shift
  %limit = add i64 %places, 1
  store i64 %start, ptr %memo
  %p1 = getelementptr i64, ptr %memo, i64 1
  store i64 %limit, ptr %p1
  %p2 = getelementptr i64, ptr %memo, i64 2
  %delta = sub i64 %data, %start
  store i64 %delta, ptr %p2
  ret void
none:
  ret void
}

; The same for shared and local memory, whose addresses have 32 bits: whether `%size` bytes hold the accesses of all lanes.
define internal i1 @inside(ptr %addresses, i32 %mask, i64 %nbytes, ptr %range, i64 %size) alwaysinline {
entry:
  %wide = load <32 x i64>, ptr %addresses, align 64
  %a = trunc <32 x i64> %wide to <32 x i32>
  %m = bitcast i32 %mask to <32 x i1>
  %here = select <32 x i1> %m, <32 x i32> %a, <32 x i32> zeroinitializer
  %lows = select <32 x i1> %m, <32 x i32> %a, <32 x i32> splat (i32 -1)
  %high = call i32 @llvm.vector.reduce.umax.v32i32(<32 x i32> %here)
  %odd = call i32 @llvm.vector.reduce.or.v32i32(<32 x i32> %here)
  %low = call i32 @llvm.vector.reduce.umin.v32i32(<32 x i32> %lows)
  %high64 = zext i32 %high to i64
  %low64 = zext i32 %low to i64
  %odd64 = zext i32 %odd to i64
  %end = add i64 %high64, %nbytes
  %status = call i32 @extent(i64 %low64, i64 %end, i64 %odd64, i64 %nbytes, ptr %range)
  %good = icmp eq i32 %status, 0
  %fits = icmp sle i64 %end, %size
  %both = and i1 %good, %fits
  ret i1 %both
}

; ---- which bytes are written: marks of -1 --------------------------------------------------------

define internal i1 @marked(ptr %p, i64 %n) alwaysinline {
entry:
  switch i64 %n, label %sixteen [ i64 1, label %one
                                  i64 2, label %two
                                  i64 4, label %four
                                  i64 8, label %eight ]
one:
  %v1 = load i8, ptr %p, align 1
  %a1 = icmp eq i8 %v1, -1
  ret i1 %a1
two:
  %v2 = load i16, ptr %p, align 1
  %a2 = icmp eq i16 %v2, -1
  ret i1 %a2
four:
  %v4 = load i32, ptr %p, align 1
  %a4 = icmp eq i32 %v4, -1
  ret i1 %a4
eight:
  %v8 = load i64, ptr %p, align 1
  %a8 = icmp eq i64 %v8, -1
  ret i1 %a8
sixteen:
  %v16 = load i128, ptr %p, align 1
  %a16 = icmp eq i128 %v16, -1
  ret i1 %a16
}

; Marks bytes that were not; 2 where the log is full.
define internal i32 @mark(ptr %ctx, ptr %p, i64 %n) alwaysinline {
entry:
  %old = call i1 @marked(ptr %p, i64 %n)
  br i1 %old, label %done, label %new
new:
  %address = ptrtoint ptr %p to i64
  %status = call i32 @ws_log(ptr %ctx, i64 %address, i64 %n)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %full, label %set
full:
  ret i32 2
set:
  call void @llvm.memset.p0.i64(ptr %p, i8 -1, i64 %n, i1 false)
  ret i32 0
done:
  ret i32 0
}

; How far memory is written, from `%from` on.
define internal i64 @ws_clean(ptr %marks, i64 %from, i64 %size) {
entry:
  %none = icmp eq ptr %marks, null
  br i1 %none, label %all, label %test
all:
  ret i64 %size
test:
  %at = phi i64 [ %from, %entry ], [ %on, %many ], [ %next, %more ]
  %over = icmp uge i64 %at, %size
  br i1 %over, label %all, label %look
look:
  %p = getelementptr i8, ptr %marks, i64 %at
  %on = add i64 %at, 64
  %beyond = icmp ugt i64 %on, %size
  br i1 %beyond, label %few, label %many
many:
  %v = load <8 x i64>, ptr %p, align 1
  %both = call i64 @llvm.vector.reduce.and.v8i64(<8 x i64> %v)
  %full = icmp eq i64 %both, -1
  br i1 %full, label %test, label %few
few:
  %good = call i1 @marked(ptr %p, i64 1)
  br i1 %good, label %more, label %end
more:
  %next = add i64 %at, 1
  br label %test
end:
  ret i64 %at
}

; ---- memory in a row: global memory, and shared memory that a CTA has alone ----------------------

; Elements of every lane from `%base` on, whose marks (or null) begin at `%marks`; 1 where one is not written.
define internal i32 @take_all(ptr %addresses, i32 %mask, ptr %base, ptr %marks, ptr %out, i64 %size, i64 %count) alwaysinline {
entry:
  %total = mul i64 %size, %count
  %untracked = icmp eq ptr %marks, null
  br label %loop
loop:
  %left = phi i32 [ %mask, %entry ], [ %fewer, %take ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %lane
lane:
  %i = call i64 @first(i32 %left)
  %fewer = call i32 @others(i32 %left)
  %a = call i64 @word(ptr %addresses, i64 %i)
  br i1 %untracked, label %take, label %look
look:
  %w = getelementptr i8, ptr %marks, i64 %a
  %there = call i1 @marked(ptr %w, i64 %total)
  br i1 %there, label %take, label %fail
take:
  %p = getelementptr i8, ptr %base, i64 %a
  call void @move(ptr %out, i64 %i, ptr %p, i64 %size, i64 %count, i1 false)
  br label %loop
fail:
  ret i32 1
done:
  ret i32 0
}

; The same into memory; `%logs`: it can be taken back.
define internal i32 @put_all(ptr %ctx, ptr %addresses, i32 %mask, ptr %base, ptr %marks, ptr %values, i1 %logs, i64 %size, i64 %count) alwaysinline {
entry:
  %total = mul i64 %size, %count
  %untracked = icmp eq ptr %marks, null
  br label %loop
loop:
  %left = phi i32 [ %mask, %entry ], [ %fewer, %next ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %lane
lane:
  %i = call i64 @first(i32 %left)
  %fewer = call i32 @others(i32 %left)
  %a = call i64 @word(ptr %addresses, i64 %i)
  %p = getelementptr i8, ptr %base, i64 %a
  %w = getelementptr i8, ptr %marks, i64 %a
  br i1 %logs, label %note, label %put
note:
  %h = ptrtoint ptr %p to i64
  %logged = call i32 @ws_log(ptr %ctx, i64 %h, i64 %total)
  %unlogged = icmp ne i32 %logged, 0
  br i1 %unlogged, label %full, label %put
put:
  call void @move(ptr %values, i64 %i, ptr %p, i64 %size, i64 %count, i1 true)
  br i1 %untracked, label %next, label %mark
mark:
  br i1 %logs, label %look, label %set
look:
  %marked = call i32 @mark(ptr %ctx, ptr %w, i64 %total)
  %unmarked = icmp ne i32 %marked, 0
  br i1 %unmarked, label %full, label %next
set:
  call void @llvm.memset.p0.i64(ptr %w, i8 -1, i64 %total, i1 false)
  br label %next
next:
  br label %loop
full:
  ret i32 2
done:
  ret i32 0
}

; ---- global memory -------------------------------------------------------------------------------

; Where the bytes of an allocation would lie in the host's memory if it began at 0 (word 2), or their marks (word 3; null: none).
define internal ptr @bytes(ptr %allocation, i64 %which) alwaysinline {
  %start = call i64 @word(ptr %allocation, i64 0)
  %there = call i64 @word(ptr %allocation, i64 %which)
  %delta = sub i64 %there, %start
  %none = icmp eq i64 %there, 0
  %place = select i1 %none, i64 0, i64 %delta
  %p = inttoptr i64 %place to ptr
  ret ptr %p
}

; Whether whole warps go to consecutive elements.
define internal i1 @consecutive(ptr %addresses, i32 %mask, i64 %size) alwaysinline {
  %a = load <32 x i64>, ptr %addresses, align 64
  %first = extractelement <32 x i64> %a, i32 0
  %one = insertelement <32 x i64> poison, i64 %first, i32 0
  %firsts = shufflevector <32 x i64> %one, <32 x i64> poison, <32 x i32> zeroinitializer
  %s = insertelement <32 x i64> poison, i64 %size, i32 0
  %sizes = shufflevector <32 x i64> %s, <32 x i64> poison, <32 x i32> zeroinitializer
  %offsets = mul <32 x i64> %sizes, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15, i64 16, i64 17, i64 18, i64 19, i64 20, i64 21, i64 22, i64 23, i64 24, i64 25, i64 26, i64 27, i64 28, i64 29, i64 30, i64 31>
  %want = add <32 x i64> %firsts, %offsets
  %same = icmp eq <32 x i64> %a, %want
  %bits = bitcast <32 x i1> %same to i32
  %all = and i32 %bits, %mask
  %row = icmp eq i32 %all, -1
  ret i1 %row
}

define internal i32 @load(ptr %ctx, ptr %addresses, i32 %mask, ptr %out, ptr %range, i64 %size, i64 %count) alwaysinline {
entry:
  %total = mul i64 %size, %count
  %nobody = icmp eq i32 %mask, 0
  br i1 %nobody, label %done, label %some
some:
  %where = call ptr @found(ptr %ctx, ptr %addresses, i32 %mask, i64 %total, ptr %range)
  %lost = icmp eq ptr %where, null
  br i1 %lost, label %fail, label %known
fail:
  ret i32 1
known:
  %base = call ptr @bytes(ptr %where, i64 2)
  %marks = call ptr @bytes(ptr %where, i64 3)
  %untracked = icmp eq ptr %marks, null
  %row = call i1 @consecutive(ptr %addresses, i32 %mask, i64 %size)
  %single = icmp eq i64 %count, 1
  %plain = and i1 %untracked, %single
  %fast = and i1 %row, %plain
  br i1 %fast, label %vector, label %lanes
vector:
  %first = call i64 @word(ptr %addresses, i64 0)
  %p = getelementptr i8, ptr %base, i64 %first
  %whole = mul i64 %size, 32
  call void @copy(ptr %out, ptr %p, i64 %whole)
  ret i32 0
lanes:
  %status = call i32 @take_all(ptr %addresses, i32 %mask, ptr %base, ptr %marks, ptr %out, i64 %size, i64 %count)
  ret i32 %status
done:
  ret i32 0
}

define internal i32 @store(ptr %ctx, ptr %addresses, i32 %mask, ptr %values, ptr %range, i64 %size, i64 %count) alwaysinline {
entry:
  %total = mul i64 %size, %count
  %nobody = icmp eq i32 %mask, 0
  br i1 %nobody, label %done, label %some
some:
  %where = call ptr @found(ptr %ctx, ptr %addresses, i32 %mask, i64 %total, ptr %range)
  %lost = icmp eq ptr %where, null
  br i1 %lost, label %fail, label %known
fail:
  ret i32 1
known:
  %locked = call i64 @word(ptr %where, i64 4)
  %wrong = icmp ne i64 %locked, 0
  br i1 %wrong, label %fail, label %open
open:
  %base = call ptr @bytes(ptr %where, i64 2)
  %marks = call ptr @bytes(ptr %where, i64 3)
  %untracked = icmp eq ptr %marks, null
  %row = call i1 @consecutive(ptr %addresses, i32 %mask, i64 %size)
  %single = icmp eq i64 %count, 1
  %fast = and i1 %row, %single
  br i1 %fast, label %vector, label %lanes
vector:
  %first = call i64 @word(ptr %addresses, i64 0)
  %p = getelementptr i8, ptr %base, i64 %first
  %whole = mul i64 %size, 32
  %stored = call i32 @overwrite(ptr %ctx, ptr %p, ptr %values, i64 %whole)
  %unstored = icmp ne i32 %stored, 0
  %over = or i1 %unstored, %untracked
  br i1 %over, label %end, label %mark
end:
  ret i32 %stored
mark:
  %w = getelementptr i8, ptr %marks, i64 %first
  %h = ptrtoint ptr %w to i64
  %logged = call i32 @ws_log(ptr %ctx, i64 %h, i64 %whole)
  %unlogged = icmp ne i32 %logged, 0
  br i1 %unlogged, label %full, label %set
full:
  ret i32 2
set:
  call void @llvm.memset.p0.i64(ptr %w, i8 -1, i64 %whole, i1 false)
  ret i32 0
lanes:
  %status = call i32 @put_all(ptr %ctx, ptr %addresses, i32 %mask, ptr %base, ptr %marks, ptr %values, i1 true, i64 %size, i64 %count)
  ret i32 %status
done:
  ret i32 0
}

; The host's address of each lane's element for an atomic; logs what is there.
define internal i32 @cells(ptr %ctx, ptr %addresses, i32 %mask, ptr %cells, ptr %range, i64 %size) alwaysinline {
entry:
  %nobody = icmp eq i32 %mask, 0
  br i1 %nobody, label %done, label %some
some:
  %where = call ptr @found(ptr %ctx, ptr %addresses, i32 %mask, i64 %size, ptr %range)
  %lost = icmp eq ptr %where, null
  br i1 %lost, label %fail, label %known
fail:
  ret i32 1
known:
  %base = call ptr @bytes(ptr %where, i64 2)
  %written = call i64 @word(ptr %where, i64 3)
  %locked = call i64 @word(ptr %where, i64 4)
  %either = or i64 %written, %locked
  %closed = icmp ne i64 %either, 0
  br i1 %closed, label %fail, label %loop
loop:
  %left = phi i32 [ %mask, %known ], [ %fewer, %keep ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %lane
lane:
  %i = call i64 @first(i32 %left)
  %fewer = call i32 @others(i32 %left)
  %a = call i64 @word(ptr %addresses, i64 %i)
  %q = getelementptr i8, ptr %base, i64 %a
  %h = ptrtoint ptr %q to i64
  %status = call i32 @ws_log(ptr %ctx, i64 %h, i64 %size)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %full, label %keep
keep:
  %p = getelementptr i64, ptr %cells, i64 %i
  store i64 %h, ptr %p
  br label %loop
full:
  ret i32 2
done:
  ret i32 0
}

; ---- shared and local memory ---------------------------------------------------------------------
; A space is {words, size, columns, marks or null}: a word of all columns side by side; every lane has its column in `%cols`.

define internal i64 @place(ptr %space, i64 %address, i64 %column) alwaysinline {
  %columns = call i64 @word(ptr %space, i64 2)
  %row = lshr i64 %address, 2
  %words = mul i64 %row, %columns
  %number = add i64 %words, %column
  %offset = shl i64 %number, 2
  %byte = and i64 %address, 3
  %place = add i64 %offset, %byte
  ret i64 %place
}

; Whole warps in a space of less than 2 GiB: the places of all lanes at once.
define internal void @quick(ptr %space, ptr %addresses, ptr %cols, ptr %out, i64 %count) alwaysinline {
entry:
  %offsets = alloca [32 x i32], align 64
  %words = load ptr, ptr %space
  %columns = call i64 @word(ptr %space, i64 2)
  %step = shl i64 %columns, 2
  %a64 = load <32 x i64>, ptr %addresses, align 64
  %c64 = load <32 x i64>, ptr %cols, align 64
  %a = trunc <32 x i64> %a64 to <32 x i32>
  %c = trunc <32 x i64> %c64 to <32 x i32>
  %n = trunc i64 %columns to i32
  %one = insertelement <32 x i32> poison, i32 %n, i32 0
  %all = shufflevector <32 x i32> %one, <32 x i32> poison, <32 x i32> zeroinitializer
  %rows = mul <32 x i32> %a, %all
  %own = shl <32 x i32> %c, splat (i32 2)
  %places = add <32 x i32> %rows, %own
  store <32 x i32> %places, ptr %offsets, align 64
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %end ]
  %offset = call i64 @index(ptr %offsets, i64 %i)
  br label %element
element:
  %k = phi i64 [ 0, %loop ], [ %k1, %element ]
  %row = mul i64 %k, %step
  %place = add i64 %offset, %row
  %p = getelementptr i8, ptr %words, i64 %place
  %at = shl i64 %k, 2
  %e = call ptr @lane(ptr %out, i64 %i, i64 %at, i64 4)
  call void @copy(ptr %e, ptr %p, i64 4)
  %k1 = add i64 %k, 1
  %over = icmp eq i64 %k1, %count
  br i1 %over, label %end, label %element
end:
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 32
  br i1 %done, label %left, label %loop
left:
  ret void
}

define internal i32 @load_words(ptr %ctx, ptr %space, ptr %addresses, i32 %mask, ptr %cols, ptr %out, ptr %range, i64 %size, i64 %count) alwaysinline {
entry:
  %total = mul i64 %size, %count
  %part = call i64 @llvm.smin.i64(i64 %size, i64 4)
  %nobody = icmp eq i32 %mask, 0
  br i1 %nobody, label %done, label %some
some:
  %bytes = call i64 @word(ptr %space, i64 1)
  %good = call i1 @inside(ptr %addresses, i32 %mask, i64 %total, ptr %range, i64 %bytes)
  br i1 %good, label %known, label %fail
fail:
  ret i32 1
known:
  %words = load ptr, ptr %space
  %marks_word = getelementptr i64, ptr %space, i64 3
  %marks = load ptr, ptr %marks_word
  %untracked = icmp eq ptr %marks, null
  %full = icmp eq i32 %mask, -1
  %whole = icmp eq i64 %size, 4
  %columns = call i64 @word(ptr %space, i64 2)
  %reach = mul i64 %bytes, %columns
  %near = icmp ult i64 %reach, 2147483648
  %fast1 = and i1 %untracked, %full
  %fast2 = and i1 %fast1, %whole
  %fast = and i1 %fast2, %near
  br i1 %fast, label %at_once, label %loop
at_once:
  call void @quick(ptr %space, ptr %addresses, ptr %cols, ptr %out, i64 %count)
  ret i32 0
loop:
  %left = phi i32 [ %mask, %known ], [ %fewer, %take ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %lane
lane:
  %i = call i64 @first(i32 %left)
  %fewer = call i32 @others(i32 %left)
  %a = call i64 @word(ptr %addresses, i64 %i)
  %column = call i64 @word(ptr %cols, i64 %i)
  br label %element
element:
  %at = phi i64 [ 0, %lane ], [ %at1, %take ]
  %b = add i64 %a, %at
  %place = call i64 @place(ptr %space, i64 %b, i64 %column)
  br i1 %untracked, label %take, label %look
look:
  %w = getelementptr i8, ptr %marks, i64 %place
  %there = call i1 @marked(ptr %w, i64 %part)
  br i1 %there, label %take, label %fail
take:
  %p = getelementptr i8, ptr %words, i64 %place
  %e = call ptr @lane(ptr %out, i64 %i, i64 %at, i64 %size)
  call void @copy(ptr %e, ptr %p, i64 %part)
  %at1 = add i64 %at, %part
  %over = icmp eq i64 %at1, %total
  br i1 %over, label %loop, label %element
done:
  ret i32 0
}

define internal i32 @store_words(ptr %ctx, ptr %space, ptr %addresses, i32 %mask, ptr %cols, ptr %values, ptr %range, i64 %size, i64 %count) alwaysinline {
entry:
  %total = mul i64 %size, %count
  %part = call i64 @llvm.smin.i64(i64 %size, i64 4)
  %nobody = icmp eq i32 %mask, 0
  br i1 %nobody, label %done, label %some
some:
  %bytes = call i64 @word(ptr %space, i64 1)
  %good = call i1 @inside(ptr %addresses, i32 %mask, i64 %total, ptr %range, i64 %bytes)
  br i1 %good, label %known, label %fail
fail:
  ret i32 1
known:
  %words = load ptr, ptr %space
  %marks_word = getelementptr i64, ptr %space, i64 3
  %marks = load ptr, ptr %marks_word
  %untracked = icmp eq ptr %marks, null
  br label %loop
loop:
  %left = phi i32 [ %mask, %known ], [ %fewer, %on ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %lane
lane:
  %i = call i64 @first(i32 %left)
  %fewer = call i32 @others(i32 %left)
  %a = call i64 @word(ptr %addresses, i64 %i)
  %column = call i64 @word(ptr %cols, i64 %i)
  br label %element
element:
  %at = phi i64 [ 0, %lane ], [ %at1, %on ]
  %b = add i64 %a, %at
  %place = call i64 @place(ptr %space, i64 %b, i64 %column)
  %p = getelementptr i8, ptr %words, i64 %place
  %e = call ptr @lane(ptr %values, i64 %i, i64 %at, i64 %size)
  %status = call i32 @overwrite(ptr %ctx, ptr %p, ptr %e, i64 %part)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %full, label %keep
keep:
  br i1 %untracked, label %on, label %note
note:
  %w = getelementptr i8, ptr %marks, i64 %place
  %noted = call i32 @mark(ptr %ctx, ptr %w, i64 %part)
  %unnoted = icmp ne i32 %noted, 0
  br i1 %unnoted, label %full, label %on
on:
  %at1 = add i64 %at, %part
  %over = icmp eq i64 %at1, %total
  br i1 %over, label %loop, label %element
full:
  ret i32 2
done:
  ret i32 0
}

define internal i32 @cells_words(ptr %ctx, ptr %space, ptr %addresses, i32 %mask, ptr %cols, ptr %cells, ptr %range, i64 %size) alwaysinline {
entry:
  %nobody = icmp eq i32 %mask, 0
  br i1 %nobody, label %done, label %some
some:
  %bytes = call i64 @word(ptr %space, i64 1)
  %good = call i1 @inside(ptr %addresses, i32 %mask, i64 %size, ptr %range, i64 %bytes)
  br i1 %good, label %known, label %fail
fail:
  ret i32 1
known:
  %words = load ptr, ptr %space
  %marks_word = getelementptr i64, ptr %space, i64 3
  %marks = load ptr, ptr %marks_word
  %untracked = icmp eq ptr %marks, null
  br label %loop
loop:
  %left = phi i32 [ %mask, %known ], [ %fewer, %keep ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %lane
lane:
  %i = call i64 @first(i32 %left)
  %fewer = call i32 @others(i32 %left)
  %a = call i64 @word(ptr %addresses, i64 %i)
  %column = call i64 @word(ptr %cols, i64 %i)
  %place = call i64 @place(ptr %space, i64 %a, i64 %column)
  br i1 %untracked, label %note, label %look
look:
  %w = getelementptr i8, ptr %marks, i64 %place
  %there = call i1 @marked(ptr %w, i64 %size)
  br i1 %there, label %note, label %fail
note:
  %q = getelementptr i8, ptr %words, i64 %place
  %h = ptrtoint ptr %q to i64
  %status = call i32 @ws_log(ptr %ctx, i64 %h, i64 %size)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %full, label %keep
keep:
  %p = getelementptr i64, ptr %cells, i64 %i
  store i64 %h, ptr %p
  br label %loop
full:
  ret i32 2
done:
  ret i32 0
}

; ---- shared memory that a CTA has alone ----------------------------------------------------------
; Nothing is logged: the copy is thrown away.

define internal i32 @own_load(ptr %ctx, ptr %addresses, i32 %mask, ptr %out, ptr %range, i64 %size, i64 %count) alwaysinline {
entry:
  %total = mul i64 %size, %count
  %words = call ptr @ctx.shared_words(ptr %ctx)
  %marks = call ptr @ctx.shared_written(ptr %ctx)
  %bytes_word = call ptr @at.shared_size(ptr %ctx)
  %bytes = load i64, ptr %bytes_word
  %nobody = icmp eq i32 %mask, 0
  br i1 %nobody, label %done, label %some
some:
  %good = call i1 @inside(ptr %addresses, i32 %mask, i64 %total, ptr %range, i64 %bytes)
  br i1 %good, label %known, label %fail
known:
  %status = call i32 @take_all(ptr %addresses, i32 %mask, ptr %words, ptr %marks, ptr %out, i64 %size, i64 %count)
  ret i32 %status
fail:
  ret i32 1
done:
  ret i32 0
}

define internal i32 @own_store(ptr %ctx, ptr %addresses, i32 %mask, ptr %values, ptr %range, i64 %size, i64 %count) alwaysinline {
entry:
  %total = mul i64 %size, %count
  %words = call ptr @ctx.shared_words(ptr %ctx)
  %marks = call ptr @ctx.shared_written(ptr %ctx)
  %bytes_word = call ptr @at.shared_size(ptr %ctx)
  %bytes = load i64, ptr %bytes_word
  %nobody = icmp eq i32 %mask, 0
  br i1 %nobody, label %done, label %some
some:
  %good = call i1 @inside(ptr %addresses, i32 %mask, i64 %total, ptr %range, i64 %bytes)
  br i1 %good, label %known, label %fail
known:
  %status = call i32 @put_all(ptr %ctx, ptr %addresses, i32 %mask, ptr %words, ptr %marks, ptr %values, i1 false, i64 %size, i64 %count)
  ret i32 %status
fail:
  ret i32 1
done:
  ret i32 0
}

; ---- which threads have accessed what since a barrier: see apart.py -----------------------------------

; A table: what is `%now` or later is of the same interval, and ends in the thread.
define internal ptr @table_of(ptr %ctx, i64 %kind) alwaysinline {
  %tables = call ptr @ctx.stamps(ptr %ctx)
  %size_word = call ptr @at.shared_size(ptr %ctx)
  %size = load i64, ptr %size_word
  %at = mul i64 %size, %kind
  %p = getelementptr i32, ptr %tables, i64 %at
  ret ptr %p
}

; Whether another thread than `%me` is in an entry of a table.
define internal i1 @other(ptr %ctx, i64 %kind, i64 %entry, i32 %now, i32 %me) alwaysinline {
  %table = call ptr @table_of(ptr %ctx, i64 %kind)
  %p = getelementptr i32, ptr %table, i64 %entry
  %old = load i32, ptr %p
  %fresh = icmp uge i32 %old, %now
  %another = icmp ne i32 %old, %me
  %found = and i1 %fresh, %another
  ret i1 %found
}

define internal i32 @others_there(ptr %ctx, i64 %kind, i64 %entry, <32 x i32> %now, <32 x i32> %me) alwaysinline {
  %table = call ptr @table_of(ptr %ctx, i64 %kind)
  %p = getelementptr i32, ptr %table, i64 %entry
  %old = load <32 x i32>, ptr %p, align 4
  %fresh = icmp uge <32 x i32> %old, %now
  %another = icmp ne <32 x i32> %old, %me
  %found = and <32 x i1> %fresh, %another
  %bits = bitcast <32 x i1> %found to i32
  ret i32 %bits
}

; Lanes of a warp access `%nbytes` each: 0 a load, 1 a store, 2 an atomic, 3 a load by the whole warp; 8 where two threads meet.
define internal i32 @meet(ptr %ctx, i32 %now, i32 %warp, ptr %addresses, i32 %mask, i64 %nbytes, i64 %shift, i64 %kind) alwaysinline {
entry:
  %count = lshr i64 %nbytes, %shift
  %rows = icmp eq i64 %kind, 3
  %table_kind = select i1 %rows, i64 0, i64 %kind
  %table = call ptr @table_of(ptr %ctx, i64 %table_kind)
  %loads = icmp eq i64 %table_kind, 0
  %adds = icmp eq i64 %kind, 2
  %many = or i32 %now, 2047
  %nobody = icmp eq i32 %mask, 0
  br i1 %nobody, label %good, label %lane
lane:
  %left = phi i32 [ %mask, %entry ], [ %rest, %next ]
  %i = call i64 @first(i32 %left)
  %rest = call i32 @others(i32 %left)
  %number = trunc i64 %i to i32
  %thread = or i32 %warp, %number
  %own = or i32 %now, %thread
  %me = select i1 %rows, i32 %many, i32 %own
  %address = call i64 @word(ptr %addresses, i64 %i)
  %begin = lshr i64 %address, %shift
  br label %one
one:
  %k = phi i64 [ 0, %lane ], [ %k1, %on ]
  %entry_at = add i64 %begin, %k
  %loaded = call i1 @other(ptr %ctx, i64 0, i64 %entry_at, i32 %now, i32 %me)
  %stored = call i1 @other(ptr %ctx, i64 1, i64 %entry_at, i32 %now, i32 %me)
  %added = call i1 @other(ptr %ctx, i64 2, i64 %entry_at, i32 %now, i32 %me)
  %after_load = select i1 %loads, i1 false, i1 %loaded
  %after_add = select i1 %adds, i1 false, i1 %added
  %some = or i1 %after_load, %after_add
  %bad = or i1 %some, %stored
  br i1 %bad, label %met, label %on
on:
  %p = getelementptr i32, ptr %table, i64 %entry_at
  %old = load i32, ptr %p
  %stale = icmp ult i32 %old, %now
  %same = icmp eq i32 %old, %me
  %alone = or i1 %stale, %same
  %new = select i1 %alone, i32 %me, i32 %many
  store i32 %new, ptr %p
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %count
  br i1 %more, label %one, label %next
next:
  %last = icmp eq i32 %rest, 0
  br i1 %last, label %good, label %lane
good:
  ret i32 0
met:
  ret i32 8
}

; The same for 32 lanes side by side, the first of them at an address.
define internal i32 @meet_row(ptr %ctx, i32 %now, i32 %warp, i32 %address, i64 %nbytes, i64 %shift, i64 %kind) alwaysinline {
entry:
  %count = lshr i64 %nbytes, %shift
  %bits64 = call i64 @llvm.cttz.i64(i64 %count, i1 true)
  %bits = trunc i64 %bits64 to i32
  %table = call ptr @table_of(ptr %ctx, i64 %kind)
  %loads = icmp eq i64 %kind, 0
  %adds = icmp eq i64 %kind, 2
  %now1 = insertelement <32 x i32> poison, i32 %now, i32 0
  %nows = shufflevector <32 x i32> %now1, <32 x i32> poison, <32 x i32> zeroinitializer
  %begin32 = zext i32 %address to i64
  %begin = lshr i64 %begin32, %shift
  br label %part
part:
  %k = phi i64 [ 0, %entry ], [ %k1, %on ]
  %at32 = shl i64 %k, 5
  %entry_at = add i64 %begin, %at32
  %at = trunc i64 %at32 to i32
  %at1 = insertelement <32 x i32> poison, i32 %at, i32 0
  %ats = shufflevector <32 x i32> %at1, <32 x i32> poison, <32 x i32> zeroinitializer
  %numbers = add <32 x i32> %ats, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %bits1 = insertelement <32 x i32> poison, i32 %bits, i32 0
  %every = shufflevector <32 x i32> %bits1, <32 x i32> poison, <32 x i32> zeroinitializer
  %lanes = lshr <32 x i32> %numbers, %every
  %who = or i32 %now, %warp
  %who1 = insertelement <32 x i32> poison, i32 %who, i32 0
  %whos = shufflevector <32 x i32> %who1, <32 x i32> poison, <32 x i32> zeroinitializer
  %me = or <32 x i32> %whos, %lanes
  %loaded = call i32 @others_there(ptr %ctx, i64 0, i64 %entry_at, <32 x i32> %nows, <32 x i32> %me)
  %stored = call i32 @others_there(ptr %ctx, i64 1, i64 %entry_at, <32 x i32> %nows, <32 x i32> %me)
  %added = call i32 @others_there(ptr %ctx, i64 2, i64 %entry_at, <32 x i32> %nows, <32 x i32> %me)
  %after_load = select i1 %loads, i32 0, i32 %loaded
  %after_add = select i1 %adds, i32 0, i32 %added
  %some = or i32 %after_load, %after_add
  %all = or i32 %some, %stored
  %bad = icmp ne i32 %all, 0
  br i1 %bad, label %met, label %on
on:
  %p = getelementptr i32, ptr %table, i64 %entry_at
  %old = load <32 x i32>, ptr %p, align 4
  %stale = icmp ult <32 x i32> %old, %nows
  %same = icmp eq <32 x i32> %old, %me
  %alone = or <32 x i1> %stale, %same
  %many = or <32 x i32> %nows, splat (i32 2047)
  %new = select <32 x i1> %alone, <32 x i32> %me, <32 x i32> %many
  store <32 x i32> %new, ptr %p, align 4
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %count
  br i1 %more, label %part, label %good
good:
  ret i32 0
met:
  ret i32 8
}

; ---- what a profile counts: see `Word` in counting.py -------------------------------------------

define internal void @more(ptr %counters, i64 %which, i64 %by) alwaysinline {
  %p = getelementptr i64, ptr %counters, i64 %which
  %old = load i64, ptr %p
  %new = add i64 %old, %by
  store i64 %new, ptr %p
  ret void
}

define internal void @took_part(ptr %counters, i32 %lanes) alwaysinline {
  %n = call i32 @llvm.ctpop.i32(i32 %lanes)
  %wide = zext i32 %n to i64
  call void @more(ptr %counters, i64 0, i64 %wide)
  call void @more(ptr %counters, i64 1, i64 1)
  ret void
}

; The lanes whose address is in the same `%size` bytes (a power of two) as lane `%i`'s.
define internal i32 @together(ptr %where, i64 %i, i64 %size) alwaysinline {
  %a = call i64 @word(ptr %where, i64 %i)
  %cut = sub i64 0, %size
  %low = and i64 %a, %cut
  %one = insertelement <32 x i64> poison, i64 %low, i32 0
  %lows = shufflevector <32 x i64> %one, <32 x i64> poison, <32 x i32> zeroinitializer
  %s = insertelement <32 x i64> poison, i64 %size, i32 0
  %sizes = shufflevector <32 x i64> %s, <32 x i64> poison, <32 x i32> zeroinitializer
  %all = load <32 x i64>, ptr %where, align 64
  %above = sub <32 x i64> %all, %lows
  %same = icmp ult <32 x i64> %above, %sizes
  %bits = bitcast <32 x i1> %same to i32
  ret i32 %bits
}

define internal i64 @count_sectors(ptr %counters, i32 %lanes, ptr %where, i64 %limit) {
entry:
  %none = icmp eq i32 %lanes, 0
  br i1 %none, label %out, label %some
some:
  %one = call i64 @first(i32 %lanes)
  %a = call i64 @word(ptr %where, i64 %one)
  %counts = icmp ult i64 %a, %limit
  br i1 %counts, label %there, label %out
there:
  %all = load <32 x i64>, ptr %where, align 64
  %numbers = lshr <32 x i64> %all, splat (i64 5)
  %before = shufflevector <32 x i64> %numbers, <32 x i64> poison, <32 x i32> <
    i32 0, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30>
  %falls = icmp ult <32 x i64> %numbers, %before
  %fall = bitcast <32 x i1> %falls to i32
  %part = xor i32 %lanes, -1
  %mixed = or i32 %fall, %part
  %ascends = icmp eq i32 %mixed, 0
  br i1 %ascends, label %steps, label %loop
steps:
  %rises = icmp ne <32 x i64> %numbers, %before
  %rise = bitcast <32 x i1> %rises to i32
  %edges = call i32 @llvm.ctpop.i32(i32 %rise)
  %wide = zext i32 %edges to i64
  %ascending = add i64 %wide, 1
  br label %end
loop:
  %left = phi i32 [ %lanes, %there ], [ %rest, %loop ]
  %n = phi i64 [ 0, %there ], [ %next, %loop ]
  %i = call i64 @first(i32 %left)
  %same = call i32 @together(ptr %where, i64 %i, i64 32)
  %others = xor i32 %same, -1
  %rest = and i32 %left, %others
  %next = add i64 %n, 1
  %done = icmp eq i32 %rest, 0
  br i1 %done, label %end, label %loop
end:
  %sectors = phi i64 [ %ascending, %steps ], [ %next, %loop ]
  call void @took_part(ptr %counters, i32 %lanes)
  call void @more(ptr %counters, i64 2, i64 %sectors)
  ret i64 %sectors
out:
  ret i64 0
}

; How many of what lanes access, `%size` bytes each, is in the same banks, at most.
define internal i64 @passes(i32 %lanes, ptr %where, i64 %size) alwaysinline {
entry:
  %banks = alloca [32 x i64]
  %known = alloca [32 x [32 x i64]]
  %groups = udiv i64 128, %size
  %last = sub i64 %groups, 1
  %s = insertelement <32 x i64> poison, i64 %size, i32 0
  %sizes = shufflevector <32 x i64> %s, <32 x i64> poison, <32 x i32> zeroinitializer
  %l = insertelement <32 x i64> poison, i64 %last, i32 0
  %lasts = shufflevector <32 x i64> %l, <32 x i64> poison, <32 x i32> zeroinitializer
  %all = load <32 x i64>, ptr %where, align 64
  %units = udiv <32 x i64> %all, %sizes
  %bank = and <32 x i64> %units, %lasts
  %bits = shl <32 x i64> splat (i64 1), %bank
  %here = bitcast i32 %lanes to <32 x i1>
  %theirs = select <32 x i1> %here, <32 x i64> %bits, <32 x i64> zeroinitializer
  %any = call i64 @llvm.vector.reduce.or.v32i64(<32 x i64> %theirs)
  %distinct = call i64 @llvm.ctpop.i64(i64 %any)
  %count = call i32 @llvm.ctpop.i32(i32 %lanes)
  %wide = zext i32 %count to i64
  %free = icmp eq i64 %distinct, %wide
  br i1 %free, label %one, label %several
one:
  ret i64 1
several:
  call void @llvm.memset.p0.i64(ptr %banks, i8 0, i64 256, i1 false)
  br label %loop
loop:
  %left = phi i32 [ %lanes, %several ], [ %rest, %on ]
  %most = phi i64 [ 0, %several ], [ %worst, %on ]
  %i = call i64 @first(i32 %left)
  %a = call i64 @word(ptr %where, i64 %i)
  %unit = udiv i64 %a, %size
  %b = and i64 %unit, %last
  %p = getelementptr i64, ptr %banks, i64 %b
  %n = load i64, ptr %p
  %row = getelementptr [32 x i64], ptr %known, i64 %b
  br label %scan
scan:
  %k = phi i64 [ 0, %loop ], [ %k.next, %look ]
  %unknown = icmp eq i64 %k, %n
  br i1 %unknown, label %new, label %look
look:
  %q = getelementptr i64, ptr %row, i64 %k
  %other = load i64, ptr %q
  %same = icmp eq i64 %other, %unit
  %k.next = add i64 %k, 1
  br i1 %same, label %on, label %scan
new:
  %r = getelementptr i64, ptr %row, i64 %n
  store i64 %unit, ptr %r
  %more = add i64 %n, 1
  store i64 %more, ptr %p
  br label %on
on:
  %there = phi i64 [ %n, %look ], [ %more, %new ]
  %higher = icmp ugt i64 %there, %most
  %worst = select i1 %higher, i64 %there, i64 %most
  %less = sub i32 %left, 1
  %rest = and i32 %left, %less
  %done = icmp eq i32 %rest, 0
  br i1 %done, label %end, label %loop
end:
  ret i64 %worst
}

; What an access of shared memory costs: pieces, and passes in the upper half.
define internal i64 @count_passes(ptr %counters, i32 %lanes, ptr %where, i64 %row, i64 %cta, i64 %size) {
entry:
  %none = icmp eq i32 %lanes, 0
  br i1 %none, label %out, label %some
some:
  call void @took_part(ptr %counters, i32 %lanes)
  %small = icmp ult i64 %size, 4
  %unit = select i1 %small, i64 4, i64 %size
  %each = udiv i64 128, %unit
  br label %loop
loop:
  %at = phi i64 [ 0, %some ], [ %next, %on ]
  %cost = phi i64 [ 0, %some ], [ %sum, %on ]
  %start = mul i64 %at, %each
  %ones = shl i64 1, %each
  %low = sub i64 %ones, 1
  %mask = shl i64 %low, %start
  %bits = trunc i64 %mask to i32
  %here = and i32 %lanes, %bits
  %empty = icmp eq i32 %here, 0
  br i1 %empty, label %on, label %piece
piece:
  %n = call i64 @passes(i32 %here, ptr %where, i64 %unit)
  %high = shl i64 %n, 32
  %both = add i64 %high, 1
  %p.most = getelementptr i64, ptr %counters, i64 4
  %most = load i64, ptr %p.most
  %worse = icmp ugt i64 %n, %most
  br i1 %worse, label %keep, label %on
keep:
  store i64 %n, ptr %p.most
  %p.row = getelementptr i64, ptr %counters, i64 5
  store i64 %row, ptr %p.row
  %p.cta = getelementptr i64, ptr %counters, i64 6
  store i64 %cta, ptr %p.cta
  %who = zext i32 %here to i64
  %p.mask = getelementptr i64, ptr %counters, i64 7
  store i64 %who, ptr %p.mask
  %p.addresses = getelementptr i64, ptr %counters, i64 8
  call void @copy(ptr %p.addresses, ptr %where, i64 256)
  br label %on
on:
  %this = phi i64 [ 0, %loop ], [ %both, %piece ], [ %both, %keep ]
  %sum = add i64 %cost, %this
  %next = add i64 %at, 1
  %covered = mul i64 %next, %each
  %done = icmp uge i64 %covered, 32
  br i1 %done, label %end, label %loop
end:
  call void @more(ptr %counters, i64 2, i64 %sum)
  ret i64 %sum
out:
  ret i64 0
}
