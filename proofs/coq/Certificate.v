(** The integer norm certificates, as the code computes them, say exactly what they should.

    For every radius that the code can ask for and every vector of int64, of any length for
    [lattice.is_certified] and of at most the stated one for the others, the answer is true if and
    only if the sum of squares, in unbounded integers, is at most the square of the radius. So no
    sum overflows, or overflowing does not change an answer; that the radius is worth the noise that
    is charged is [lattice_radius_sound] and [fine_radius_sound]. *)

From Coq Require Import ZArith List Bool Lia Psatz QArith.
From Weir Require Import Python Code.
Import ListNotations.
Open Scope Z_scope.

Definition sum_of_squares (v : vector) : Z := total (map (fun x => x * x) v).

(** The largest radii, for the least noise multiplier that is not refused. *)
Definition most_radius := 6553800.
Definition most_fine_radius := 419456000.

(** ** Radii *)

Lemma multiplier_in_range q : check_noise_multiplier q <> None ->
  Qnum MIN_NOISE_MULTIPLIER * Zpos (Qden q) <= Qnum q * Zpos (Qden MIN_NOISE_MULTIPLIER).
Proof.
  unfold check_noise_multiplier. cbn -[Qle_bool MIN_NOISE_MULTIPLIER MAX_NOISE_MULTIPLIER py_le].
  unfold py_le, le_Q.
  destruct (Qle_bool MIN_NOISE_MULTIPLIER q) eqn:H; [ | cbn; congruence ].
  intros _. apply Qle_bool_iff in H. exact H.
Qed.

Theorem lattice_radius_sound q b r : lattice_radius q b = Some r ->
  1 <= r <= most_radius /\ 1 <= b <= 2 /\ 0 < Qnum q /\
  (b * r * Qnum q) ^ 2 <= LATTICE_VARIANCE * Zpos (Qden q) ^ 2.
Proof.
  unfold lattice_radius. destruct (check_noise_multiplier q) eqn:Hq; [ | discriminate ].
  assert (Hmin : check_noise_multiplier q <> None) by congruence.
  apply multiplier_in_range in Hmin. clear Hq.
  destruct (negb _) eqn:Hb; [ discriminate | ].
  assert (1 <= b <= 2) as Hb'.
  { apply negb_false_iff, orb_true_iff in Hb. destruct Hb as [Hb | Hb]; apply Z.eqb_eq in Hb; lia. }
  clear Hb. cbn [ratio].
  unfold py_floordiv, py_mul, py_pow, py_isqrt, py_lt, floordiv_Z, mul_Z, pow_Z, lt_Z.
  set (n := Qnum q) in *. set (d := Zpos (Qden q)) in *.
  assert (0 < d) by (subst d; lia).
  change (Qnum MIN_NOISE_MULTIPLIER) with 5764607523034235 in Hmin.
  change (Zpos (Qden MIN_NOISE_MULTIPLIER)) with 576460752303423488 in Hmin.
  assert (0 < n) by nia.
  set (quotient := (LATTICE_VARIANCE * d ^ 2) / (b * n) ^ 2).
  destruct (Z.sqrt quotient <? 1) eqn:Hr; [ discriminate | ].
  intros Heq. assert (Hsqrt : r = Z.sqrt quotient) by congruence. clear Heq. subst r.
  apply Z.ltb_ge in Hr. assert (Hpos : 0 < (b * n) ^ 2) by (apply Z.pow_pos_nonneg; nia).
  assert (Hvar : LATTICE_VARIANCE = 4295229440) by reflexivity.
  assert (Hquot : 0 <= quotient).
  { subst quotient. apply Z.div_pos; nia. }
  destruct (Z.sqrt_spec quotient Hquot) as [Hs _].
  assert (Hdiv : (b * n) ^ 2 * quotient <= LATTICE_VARIANCE * d ^ 2) by (apply Z.mul_div_le; lia).
  set (s := Z.sqrt quotient) in *.
  assert (Hmain : (b * s * n) ^ 2 <= LATTICE_VARIANCE * d ^ 2).
  { replace ((b * s * n) ^ 2) with ((b * n) ^ 2 * (s * s)) by ring.
    eapply Z.le_trans; [ | exact Hdiv ]. apply Z.mul_le_mono_nonneg_l; lia. }
  repeat split; try lia.
  (* (s n)^2 <= V d^2 < (65538 d)^2, so s n <= 65538 d *)
  assert (Hsn : s * n <= 65538 * d).
  { apply Z.square_le_simpl_nonneg; [ lia | ].
    rewrite Hvar in Hmain.
    assert ((s * n) * (s * n) <= (b * s * n) ^ 2) by (rewrite Z.pow_2_r; apply Z.square_le_mono_nonneg; nia).
    nia. }
  assert (s * 5764607523034235 * d <= 65538 * 576460752303423488 * d) by nia.
  assert (s * 5764607523034235 <= 65538 * 576460752303423488) by nia.
  unfold most_radius. lia.
Qed.

Theorem fine_radius_sound q r : fine_radius q = Some r ->
  1 <= r <= most_fine_radius /\ 0 < Qnum q /\ 2 * r * Qnum q <= FINE_STD * Zpos (Qden q).
Proof.
  unfold fine_radius. destruct (check_noise_multiplier q) eqn:Hq; [ | discriminate ].
  assert (Hmin : check_noise_multiplier q <> None) by congruence.
  apply multiplier_in_range in Hmin. clear Hq. cbn [ratio].
  unfold py_floordiv, py_mul, py_lt, floordiv_Z, mul_Z, lt_Z.
  set (n := Qnum q) in *. set (d := Zpos (Qden q)) in *.
  assert (0 < d) by (subst d; lia).
  change (Qnum MIN_NOISE_MULTIPLIER) with 5764607523034235 in Hmin.
  change (Zpos (Qden MIN_NOISE_MULTIPLIER)) with 576460752303423488 in Hmin.
  assert (0 < n) by nia.
  assert (Hstd : FINE_STD = 8389120) by reflexivity.
  assert (Hdiv := Z.mul_div_le (FINE_STD * d) (2 * n) ltac:(lia)).
  set (s := FINE_STD * d / (2 * n)) in *.
  destruct (s <? 1) eqn:Hr; [ discriminate | ].
  intros Heq. assert (Hs : r = s) by congruence. clear Heq. subst r. apply Z.ltb_ge in Hr.
  repeat split; try lia.
  rewrite Hstd in Hdiv.
  assert (s * 2 * 5764607523034235 * d <= 8389120 * 576460752303423488 * d) by nia.
  assert (s * 2 * 5764607523034235 <= 8389120 * 576460752303423488) by nia.
  unfold most_fine_radius. lia.
Qed.

(** ** Sums *)

Lemma total_cons x v : total (x :: v) = x + total v.
Proof. reflexivity. Qed.

Lemma total_app a b : total (a ++ b) = total a + total b.
Proof. induction a as [ | x a IH ]; cbn; [ reflexivity | unfold total in *; cbn; lia ]. Qed.

Lemma total_bound v least most : (forall x, In x v -> least <= x <= most) ->
  Z.of_nat (length v) * least <= total v <= Z.of_nat (length v) * most.
Proof.
  induction v as [ | x v IH ]; intros H; [ cbn; lia | ].
  assert (H1 := H x (or_introl eq_refl)).
  assert (H2 := IH (fun y h => H y (or_intror h))).
  cbn [length total fold_right] in *. unfold total in *. lia.
Qed.

Lemma total_nonneg v : (forall x, In x v -> 0 <= x) -> 0 <= total v.
Proof.
  induction v as [ | x v IH ]; intros H; [ cbn; lia | ].
  assert (0 <= x) by (apply H; left; reflexivity).
  assert (0 <= total v) by (apply IH; intros; apply H; right; assumption).
  unfold total in *; cbn; lia.
Qed.

Lemma squares_nonneg v : 0 <= sum_of_squares v.
Proof. apply total_nonneg. intros x H. apply in_map_iff in H. destruct H as (y & <- & _). nia. Qed.

Lemma sum_of_squares_app a b : sum_of_squares (a ++ b) = sum_of_squares a + sum_of_squares b.
Proof. unfold sum_of_squares. rewrite map_app. apply total_app. Qed.

Definition bounded_by (m : Z) (v : vector) : Prop := forall x, In x v -> - m <= x <= m.

Lemma squares_bound v m : bounded_by m v ->
  sum_of_squares v <= Z.of_nat (length v) * (m * m).
Proof.
  intros H. unfold sum_of_squares. rewrite <- (map_length (fun x => x * x) v).
  eapply total_bound with (least := 0). intros y Hy.
  apply in_map_iff in Hy. destruct Hy as (x & <- & Hx). specialize (H x Hx). nia.
Qed.

(** ** Clamping keeps the answer *)

Lemma clamp_bounded v r : 0 <= r -> bounded_by (r + 1) (clamp v (- r - 1) (r + 1)).
Proof.
  intros Hr x Hx. unfold clamp, clamp_vector in Hx.
  apply in_map_iff in Hx. destruct Hx as (y & <- & _). lia.
Qed.

Lemma sum_of_squares_cons x v : sum_of_squares (x :: v) = x * x + sum_of_squares v.
Proof. reflexivity. Qed.

Lemma clamp_square x r : 0 <= r -> let c := Z.min (Z.max x (- r - 1)) (r + 1) in
  0 <= c * c <= x * x /\ (c * c <= r * r -> c = x).
Proof.
  cbv zeta. intros Hr.
  destruct (Z.le_gt_cases x (- r - 1)).
  { replace (Z.min (Z.max x (- r - 1)) (r + 1)) with (- r - 1) by lia. nia. }
  destruct (Z.le_gt_cases (r + 1) x).
  { replace (Z.min (Z.max x (- r - 1)) (r + 1)) with (r + 1) by lia. nia. }
  replace (Z.min (Z.max x (- r - 1)) (r + 1)) with x by lia. nia.
Qed.

Lemma clamp_cons x v r : clamp (x :: v) (- r - 1) (r + 1)
  = Z.min (Z.max x (- r - 1)) (r + 1) :: clamp v (- r - 1) (r + 1).
Proof. reflexivity. Qed.

Lemma clamp_decides v r : 0 <= r ->
  (sum_of_squares (clamp v (- r - 1) (r + 1)) <=? r ^ 2) = (sum_of_squares v <=? r ^ 2).
Proof.
  intros Hr. rewrite Z.pow_2_r.
  assert (Hless : sum_of_squares (clamp v (- r - 1) (r + 1)) <= sum_of_squares v).
  { induction v as [ | x v IH ]; [ cbn; lia | ].
    rewrite clamp_cons, !sum_of_squares_cons. destruct (clamp_square x r Hr). lia. }
  assert (Hsame : sum_of_squares (clamp v (- r - 1) (r + 1)) <= r * r ->
                  sum_of_squares (clamp v (- r - 1) (r + 1)) = sum_of_squares v).
  { clear Hless. induction v as [ | x v IH ]; [ reflexivity | ].
    assert (H0 := squares_nonneg (clamp v (- r - 1) (r + 1))).
    rewrite clamp_cons, !sum_of_squares_cons. destruct (clamp_square x r Hr) as [Hc Hsame].
    intros H. rewrite Hsame in * by lia. lia. }
  destruct (Z.leb_spec (sum_of_squares (clamp v (- r - 1) (r + 1))) (r * r));
    destruct (Z.leb_spec (sum_of_squares v) (r * r)); try reflexivity; [ rewrite <- Hsame in *; lia | lia ].
Qed.

(** ** lattice.is_certified *)

Lemma map2_diagonal {A B} (f : A -> A -> B) v : map2 f v v = map (fun x => f x x) v.
Proof. unfold map2. induction v as [ | x v IH ]; cbn; [ reflexivity | f_equal; exact IH ]. Qed.

Lemma dot_exact v m : bounded_by m v -> Z.of_nat (length v) * (m * m) < 2 ^ 63 ->
  dot v v = sum_of_squares v.
Proof.
  intros Hv Hm. unfold dot. rewrite map2_diagonal.
  assert (H := squares_bound v m Hv). assert (H0 := squares_nonneg v).
  apply wrap_small. unfold fits, sum_of_squares in *. lia.
Qed.

Lemma firstn_add {A} (l : list A) m n : firstn (m + n) l = firstn m l ++ firstn n (skipn m l).
Proof.
  revert l. induction m as [ | m IH ]; intros l; [ reflexivity | ].
  destruct l as [ | x l ]; cbn; [ now rewrite firstn_nil | ]. f_equal. apply IH.
Qed.

Lemma slices v (f : vector -> Z) k m :
  (forall a b, f (a ++ b) = f a + f b) -> f [] = 0 ->
  total (map (fun i => f (firstn k (skipn (i * k) v))) (seq 0 m)) = f (firstn (m * k) v).
Proof.
  intros Happ Hnil. induction m as [ | m IH ]; [ cbn; now rewrite Hnil | ].
  rewrite seq_S, map_app, total_app, IH, Nat.mul_succ_l, firstn_add, Happ. cbn. lia.
Qed.

Lemma in_firstn {A} (x : A) n l : In x (firstn n l) -> In x l.
Proof. intros H. rewrite <- (firstn_skipn n l). apply in_or_app. now left. Qed.
Lemma in_skipn {A} (x : A) n l : In x (skipn n l) -> In x l.
Proof. intros H. rewrite <- (firstn_skipn n l). apply in_or_app. now right. Qed.

Theorem squared_norm_exact v r : 1 <= r <= most_radius ->
  squared_norm v r = sum_of_squares (clamp v (- r - 1) (r + 1)).
Proof.
  intros Hr. unfold squared_norm, flat, py_sub, py_neg, py_add, sub_Z, neg_Z, add_Z.
  cbv zeta. set (bounded := clamp v (- r - 1) (r + 1)).
  assert (Hbounded : bounded_by (r + 1) bounded) by (apply clamp_bounded; lia).
  unfold py_sum, py_map, py_range, py_int. rewrite !map_map.
  set (k := Z.to_nat CHUNK). assert (Hk : Z.of_nat k = CHUNK) by (apply Z2Nat.id; discriminate).
  assert (HC : CHUNK = 65536) by reflexivity.
  erewrite map_ext with (g := fun i => sum_of_squares (firstn k (skipn (i * k) bounded))).
  - rewrite slices; [ | apply sum_of_squares_app | reflexivity ].
    f_equal. apply firstn_all2. unfold numel.
    assert (Hdiv := Z.div_mod (Z.of_nat (length bounded) + CHUNK - 1) CHUNK ltac:(lia)).
    assert (Hmod := Z.mod_pos_bound (Z.of_nat (length bounded) + CHUNK - 1) CHUNK ltac:(lia)).
    rewrite Z.sub_0_r. apply Nat2Z.inj_le. rewrite Nat2Z.inj_mul, Hk, Z2Nat.id; nia.
  - intros i. unfold py_slice. rewrite Z.add_0_l.
    replace (Z.to_nat (Z.of_nat i * CHUNK)) with (i * k)%nat by lia.
    replace (Z.to_nat (Z.of_nat i * CHUNK + CHUNK) - i * k)%nat with k by lia.
    apply dot_exact with (m := r + 1).
    + intros x Hx. apply Hbounded. eapply in_skipn, in_firstn, Hx.
    + assert (Hlen := firstn_le_length k (skipn (i * k) bounded)).
      unfold most_radius in Hr. nia.
Qed.

Theorem is_certified_exact v r : 1 <= r <= most_radius ->
  is_certified v r = (sum_of_squares v <=? r ^ 2).
Proof.
  intros Hr. unfold is_certified, py_le, le_Z, py_pow, pow_Z.
  rewrite squared_norm_exact by exact Hr. apply clamp_decides. lia.
Qed.

(** ** averaged._certified *)

Lemma split_square x : let h := Z.shiftr x HALF in let l := Z.land x (Z.shiftl 1 HALF - 1) in
  x * x = h * h * 2 ^ (2 * HALF) + h * l * 2 ^ (HALF + 1) + l * l /\ 0 <= l < 2 ^ HALF /\
  x = h * 2 ^ HALF + l.
Proof.
  cbv zeta. rewrite Z.shiftr_div_pow2 by (unfold HALF; lia).
  replace (Z.shiftl 1 HALF - 1) with (Z.ones HALF) by reflexivity.
  rewrite Z.land_ones by (unfold HALF; lia).
  change (2 ^ HALF) with 32768.
  change (2 ^ (2 * HALF)) with 1073741824. change (2 ^ (HALF + 1)) with 65536.
  assert (H := Z.div_mod x 32768 ltac:(lia)). assert (H2 := Z.mod_pos_bound x 32768 ltac:(lia)).
  nia.
Qed.

Definition halves (v : vector) : Z * Z * Z :=
  let high := py_rshift v HALF in
  let low := py_and v (py_sub (py_lshift 1 HALF) 1) in
  (wrap (total (square high)), wrap (total (py_mul high low)), wrap (total (square low))).

Definition joined : Z * Z * Z -> Z := fun '(hh, hl, ll) =>
  Z.shiftl hh (2 * HALF) + Z.shiftl hl (HALF + 1) + ll.

Lemma map2_maps {A B C D} (f : B -> C -> D) (g : A -> B) (h : A -> C) l :
  map2 f (map g l) (map h l) = map (fun x => f (g x) (h x)) l.
Proof. unfold map2. induction l as [ | x l IH ]; cbn; [ reflexivity | f_equal; exact IH ]. Qed.

Lemma map_wrap {A} (f : A -> Z) l : (forall x, In x l -> fits (f x)) ->
  map (fun x => wrap (f x)) l = map f l.
Proof. intros H. apply map_ext_in. intros x Hx. apply wrap_small, H, Hx. Qed.

Lemma total_map_bound {A} (f : A -> Z) l least most :
  (forall x, In x l -> least <= f x <= most) ->
  Z.of_nat (length l) * least <= total (map f l) <= Z.of_nat (length l) * most.
Proof.
  intros H. rewrite <- (map_length f l). apply total_bound.
  intros y Hy. apply in_map_iff in Hy. destruct Hy as (x & <- & Hx). now apply H.
Qed.

Lemma halves_exact v m : bounded_by m v -> 0 <= m <= most_fine_radius + 1 ->
  Z.of_nat (length v) <= MAX_COORDINATES -> joined (halves v) = sum_of_squares v.
Proof.
  intros Hv Hm Hlen.
  assert (HM : MAX_COORDINATES = 268435456) by reflexivity. rewrite HM in Hlen.
  unfold halves, joined. cbv zeta.
  unfold square, square_vector, py_mul, mul_vector, py_rshift, rshift_vector, py_and, and_vector.
  unfold py_sub, sub_Z, py_lshift, lshift_Z.
  rewrite !map_map, map2_maps.
  assert (Hparts : forall x, In x v ->
    0 <= Z.shiftr x HALF * Z.shiftr x HALF <= 2 ^ 28 /\
    - 2 ^ 30 <= Z.shiftr x HALF * Z.land x (Z.shiftl 1 HALF - 1) <= 2 ^ 30 /\
    0 <= Z.land x (Z.shiftl 1 HALF - 1) * Z.land x (Z.shiftl 1 HALF - 1) <= 2 ^ 30).
  { intros x Hx. specialize (Hv x Hx). destruct (split_square x) as (_ & Hl & Hs).
    unfold most_fine_radius in Hm. change (2 ^ HALF) with 32768 in *.
    set (h := Z.shiftr x HALF) in *. set (l := Z.land x (Z.shiftl 1 HALF - 1)) in *.
    assert (-12802 <= h <= 12801) by nia. nia. }
  rewrite !map_wrap by (intros x Hx; specialize (Hparts x Hx); unfold fits; lia).
  assert (Hhh := total_map_bound _ v 0 (2 ^ 28) (fun x Hx => proj1 (Hparts x Hx))).
  assert (Hhl := total_map_bound _ v (- 2 ^ 30) (2 ^ 30) (fun x Hx => proj1 (proj2 (Hparts x Hx)))).
  assert (Hll := total_map_bound _ v 0 (2 ^ 30) (fun x Hx => proj2 (proj2 (Hparts x Hx)))).
  rewrite !wrap_small by (unfold fits; lia). clear Hhh Hhl Hll Hparts Hlen Hv.
  rewrite (Z.shiftl_mul_pow2 _ (2 * HALF)), (Z.shiftl_mul_pow2 _ (HALF + 1)) by (unfold HALF; lia).
  unfold sum_of_squares.
  induction v as [ | x v IH ]; [ reflexivity | ].
  destruct (split_square x) as (Hx & _).
  change (total (map (fun x => x * x) (x :: v))) with (x * x + total (map (fun x => x * x) v)).
  rewrite Hx, <- IH. cbn [map]. rewrite !total_cons.
  generalize (2 ^ (2 * HALF)) (2 ^ (HALF + 1)). intros. ring.
Qed.

Lemma stack_rows m (f g h : vector -> Z) :
  stack_3 (map f m) (map g m) (map h m) = map (fun v => (f v, g v, h v)) m.
Proof. unfold stack_3. induction m as [ | v m IH ]; cbn; [ reflexivity | f_equal; exact IH ]. Qed.

Theorem critics_certified_exact rows r : 1 <= r <= most_fine_radius ->
  (forall v, In v rows -> Z.of_nat (length v) <= MAX_COORDINATES) ->
  critics_certified rows r = map (fun v => sum_of_squares v <=? r ^ 2) rows.
Proof.
  intros Hr Hrows. unfold critics_certified. cbv zeta.
  unfold flatten_1, tolist, py_map, sum_dim_1.
  unfold clamp, clamp_matrix, square, square_matrix, py_rshift, rshift_matrix, py_and, and_matrix.
  unfold py_mul, mul_matrix. rewrite !map_map, map2_maps, !map_map, stack_rows, !map_map.
  apply map_ext_in. intros v Hv.
  set (bounded := clamp v (py_sub (py_neg r) 1) (py_add r 1)).
  change (py_le (joined (halves bounded)) (py_pow r 2) = (sum_of_squares v <=? r ^ 2)).
  assert (Hbounded : bounded = clamp v (- r - 1) (r + 1)) by reflexivity.
  rewrite halves_exact with (m := r + 1).
  - rewrite Hbounded. apply clamp_decides. lia.
  - rewrite Hbounded. apply clamp_bounded. lia.
  - lia.
  - rewrite Hbounded. unfold clamp, clamp_vector. rewrite map_length. apply Hrows, Hv.
Qed.

(** ** summed._squared_integers and summed._certified_units *)

Lemma squared_integers_exact rows r : 1 <= r <= most_radius ->
  (forall v, In v rows -> Z.of_nat (length v) <= MAX_FEATURES) ->
  squared_integers rows r = map (fun v => sum_of_squares (clamp v (- r - 1) (r + 1))) rows.
Proof.
  intros Hr Hrows. unfold squared_integers. cbv zeta.
  unfold sum_dim_1, square at 1, square_matrix, clamp at 1, clamp_matrix.
  rewrite !map_map. apply map_ext_in. intros v Hv.
  change (wrap (total (square_vector (clamp v (- r - 1) (r + 1))))
    = sum_of_squares (clamp v (- r - 1) (r + 1))).
  assert (Hbound := clamp_bounded v r ltac:(lia)).
  set (bounded := clamp v (- r - 1) (r + 1)) in *.
  assert (Hlen : Z.of_nat (length bounded) <= 131072).
  { unfold bounded, clamp, clamp_vector. rewrite map_length. apply Hrows, Hv. }
  assert (Hsum := squares_bound bounded (r + 1) Hbound).
  assert (H0 := squares_nonneg bounded).
  unfold square_vector. unfold most_radius in Hr. rewrite map_wrap.
  - apply wrap_small. unfold fits, sum_of_squares in *. nia.
  - intros x Hx. specialize (Hbound x Hx). unfold fits. nia.
Qed.

(** What a unit's pairs add up to: values at the places that name it. *)
Definition of_unit (u : nat) (places : vector) {A} (values : list A) : list A :=
  map snd (filter (fun '(p, _) => p =? Z.of_nat u) (combine places values)).

(** Cutting sums of squares at [r^2 + 1] keeps the answer, as clamping coordinates does. *)
Lemma cut_decides r (values : vector) : (forall x, In x values -> 0 <= x) ->
  (total (clamp_max values (r ^ 2 + 1)) <=? r ^ 2) = (total values <=? r ^ 2).
Proof.
  intros H0.
  assert (Hcut : forall l, (forall x, In x l -> 0 <= x) -> 0 <= total (clamp_max l (r ^ 2 + 1)) <= total l).
  { induction l as [ | x l IH ]; intros Hl; [ cbn; lia | ].
    assert (0 <= x) by (apply Hl; left; reflexivity).
    assert (IH' := IH (fun y h => Hl y (or_intror h))).
    unfold total, clamp_max, clamp_max_vector in *. cbn in *. nia. }
  assert (Hsame : total (clamp_max values (r ^ 2 + 1)) <= r ^ 2 ->
                  total (clamp_max values (r ^ 2 + 1)) = total values).
  { induction values as [ | x l IH ]; [ reflexivity | ]. intros H.
    assert (0 <= x) by (apply H0; left; reflexivity).
    assert (Hl := Hcut l (fun y h => H0 y (or_intror h))).
    assert (IH' := IH (fun y h => H0 y (or_intror h))).
    unfold total, clamp_max, clamp_max_vector in *. cbn in *. lia. }
  assert (Hv := Hcut values H0).
  destruct (Z.leb_spec (total (clamp_max values (r ^ 2 + 1))) (r ^ 2));
    destruct (Z.leb_spec (total values) (r ^ 2)); try reflexivity; [ rewrite Hsame in *; lia | lia ].
Qed.

Lemma of_unit_map {A B} (f : A -> B) u places values :
  of_unit u places (map f values) = map f (of_unit u places values).
Proof.
  unfold of_unit. revert values.
  induction places as [ | p places IH ]; intros [ | x values ]; cbn; try reflexivity.
  destruct (p =? Z.of_nat u); cbn; [ f_equal | ]; apply IH.
Qed.

Lemma of_unit_in {A} u places (values : list A) x : In x (of_unit u places values) -> In x values.
Proof.
  unfold of_unit. intros H. apply in_map_iff in H. destruct H as ((p, y) & <- & H).
  apply filter_In in H. destruct H as (H & _). eapply in_combine_r, H.
Qed.

Lemma nth_combine_seq n u : (u < n)%nat -> nth u (combine (seq 0 n) (repeat 0 n)) (O, 0) = (u, 0).
Proof.
  intros H. rewrite combine_nth by (rewrite seq_length, repeat_length; reflexivity).
  rewrite seq_nth by exact H. now rewrite nth_repeat.
Qed.

(** A unit has fewer than this many pairs, one for each class. *)
Definition most_pairs := 2 ^ 16.

Theorem units_certified_exact rows places n r u : 1 <= r <= most_radius -> (u < Z.to_nat n)%nat ->
  (forall v, In v rows -> Z.of_nat (length v) <= MAX_FEATURES) ->
  Z.of_nat (length (of_unit u places rows)) <= most_pairs ->
  nth u (units_certified (squared_integers rows r) places n r) false
    = (total (map sum_of_squares (of_unit u places rows)) <=? r ^ 2).
Proof.
  intros Hr Hu Hrows Hpairs. rewrite squared_integers_exact by assumption.
  set (squares := map _ rows).
  set (f := fun '(w, x) => wrap (x + total (of_unit w places (clamp_max squares (r ^ 2 + 1)))) <=? r ^ 2).
  assert (Hdef : units_certified squares places n r = map f (combine (seq 0 (Z.to_nat n)) (zeros n))).
  { unfold units_certified. cbv zeta. unfold py_le, le_vector, py_pow, pow_Z, py_add, add_Z, index_add.
    rewrite map_map. unfold zeros. rewrite repeat_length. apply map_ext. intros (w, x). reflexivity. }
  rewrite Hdef, nth_indep with (d' := f (O, 0)), map_nth.
  2: { unfold zeros. rewrite map_length, combine_length, seq_length, repeat_length. lia. }
  unfold zeros. rewrite nth_combine_seq by exact Hu. unfold f. clear Hdef f. rewrite Z.add_0_l.
  unfold clamp_max at 1, clamp_max_vector. rewrite of_unit_map.
  change (map (fun x => Z.min x (r ^ 2 + 1)) (of_unit u places squares))
    with (clamp_max (of_unit u places squares) (r ^ 2 + 1)).
  assert (Hsq : of_unit u places squares
    = map (fun v => sum_of_squares (clamp v (- r - 1) (r + 1))) (of_unit u places rows)) by apply of_unit_map.
  assert (H0 : forall x, In x (of_unit u places squares) -> 0 <= x).
  { intros x. rewrite Hsq. intros H. apply in_map_iff in H. destruct H as (v & <- & _). apply squares_nonneg. }
  rewrite wrap_small.
  - rewrite cut_decides by exact H0. rewrite Hsq. generalize (of_unit u places rows). intros own.
    (* all coordinates of the unit are one vector *)
    assert (H : forall l, total (map sum_of_squares l) = sum_of_squares (concat l)).
    { induction l as [ | v l IH ]; [ reflexivity | ]. cbn [concat map].
      now rewrite sum_of_squares_app, <- IH. }
    rewrite <- (map_map (fun v => clamp v (- r - 1) (r + 1)) sum_of_squares), !H.
    unfold clamp, clamp_vector. rewrite <- concat_map. apply (clamp_decides (concat own)). lia.
  - assert (Hcount : Z.of_nat (length (of_unit u places squares)) <= 65536).
    { rewrite Hsq, map_length. exact Hpairs. }
    assert (Hall := total_map_bound (fun x => Z.min x (r ^ 2 + 1)) (of_unit u places squares) 0 (r ^ 2 + 1)).
    change (clamp_max (of_unit u places squares) (r ^ 2 + 1))
      with (map (fun x => Z.min x (r ^ 2 + 1)) (of_unit u places squares)).
    assert (Hr2 : 0 <= r ^ 2 <= most_radius * most_radius) by (rewrite Z.pow_2_r; nia).
    unfold most_radius in Hr2. unfold fits.
    destruct Hall as [Hlow Hhigh].
    + intros x Hx. specialize (H0 x Hx). lia.
    + nia.
Qed.

(** ** outer._is_certified: integers in double precision *)

(** A sum, with the order of its additions. *)
Inductive tree := leaf (z : Z) | node (a b : tree).
Fixpoint leaves (t : tree) : list Z := match t with leaf z => [z] | node a b => leaves a ++ leaves b end.
Fixpoint rounded_sum (round : Z -> Z) (t : tree) : Z :=
  match t with leaf z => z | node a b => round (rounded_sum round a + rounded_sum round b) end.

(** A rounding that never turns the order around, and keeps what double precision holds exactly. *)
Theorem sum_in_any_order round t : (forall z, 0 <= z <= 2 ^ 53 -> round z = z) ->
  (forall y z, y <= z -> round y <= round z) -> (forall z, In z (leaves t) -> 0 <= z <= 2 ^ 53) ->
  0 <= rounded_sum round t /\
  (total (leaves t) <= 2 ^ 53 -> rounded_sum round t = total (leaves t)) /\
  (2 ^ 53 < total (leaves t) -> 2 ^ 53 <= rounded_sum round t).
Proof.
  intros Hexact Hmono. induction t as [ z | a IHa b IHb ]; intros H; cbn [leaves rounded_sum].
  - specialize (H z (or_introl eq_refl)). cbn. lia.
  - destruct IHa as (A0 & A1 & A2). { intros z Hz. apply H, in_or_app. now left. }
    destruct IHb as (B0 & B1 & B2). { intros z Hz. apply H, in_or_app. now right. }
    assert (Ha : 0 <= total (leaves a)). { apply total_nonneg. intros z Hz. apply H, in_or_app. now left. }
    assert (Hb : 0 <= total (leaves b)). { apply total_nonneg. intros z Hz. apply H, in_or_app. now right. }
    rewrite total_app. set (x := rounded_sum round a) in *. set (y := rounded_sum round b) in *.
    assert (Hzero : round 0 = 0) by (apply Hexact; lia). assert (Htop : round (2 ^ 53) = 2 ^ 53) by (apply Hexact; lia).
    repeat split.
    + rewrite <- Hzero. apply Hmono. lia.
    + intros Hsum. rewrite A1, B1 by lia. apply Hexact. lia.
    + intros Hsum. rewrite <- Htop. apply Hmono.
      destruct (Z.le_gt_cases (total (leaves a)) (2 ^ 53)); destruct (Z.le_gt_cases (total (leaves b)) (2 ^ 53)); lia.
Qed.

Lemma known_sum v : (forall x, In x v -> 0 <= x) ->
  fold_right add_doubles (exactly 0) (map known v) = known (total v).
Proof.
  induction v as [ | x v IH ]; intros H; [ reflexivity | ].
  assert (Hx : 0 <= x) by (apply H; now left).
  assert (Hv : 0 <= total v) by (apply total_nonneg; intros; apply H; now right).
  cbn [map fold_right]. rewrite IH, total_cons by (intros; apply H; now right). unfold known at 1 2.
  destruct (Z.leb_spec x (2 ^ 53)), (Z.leb_spec (total v) (2 ^ 53)); cbn [add_doubles]; try reflexivity;
    unfold known; destruct (Z.leb_spec (x + total v) (2 ^ 53)); try reflexivity; lia.
Qed.

Theorem factors_certified_exact rows r : In r [LEFT_RADIUS; RIGHT_RADIUS] ->
  (forall v, In v rows -> bounded_by (Qnum BEYOND) v) ->
  factors_certified (rows_of rows) r = map (fun v => sum_of_squares v <=? r ^ 2) rows
  /\ (Qnum BEYOND * Qnum BEYOND <= 2 ^ 53 /\ Qden BEYOND = 1%positive).
Proof.
  intros Hr _. split; [ | split; [ unfold BEYOND; cbn; lia | reflexivity ] ].
  assert (Hr2 : 0 <= r ^ 2 < 2 ^ 53).
  { destruct Hr as [<- | [<- | []]]; cbn; lia. }
  unfold factors_certified, sum_dim_1_keepdim, square, square_doubles, py_le, le_doubles, py_pow, pow_Z.
  rewrite !map_map. apply map_ext. intros v.
  rewrite <- (map_map (fun x => x * x) known), known_sum.
  - unfold known. fold (sum_of_squares v). destruct (Z.leb_spec (sum_of_squares v) (2 ^ 53)); [ reflexivity | ].
    destruct (Z.leb_spec (2 ^ 53) (r ^ 2)), (Z.leb_spec (sum_of_squares v) (r ^ 2)); try reflexivity; lia.
  - intros x Hx. apply in_map_iff in Hx. destruct Hx as (y & <- & _). nia.
Qed.
